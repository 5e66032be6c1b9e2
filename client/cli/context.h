// What every command needs: the connection, how to print, and how to end. One a process, used by
// the main thread.

#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/cli/exit_codes.h"
#include "client/cli/style.h"
#include "google/protobuf/message.h"
#include "headcount/v1/catalog_service.grpc.pb.h"
#include "headcount/v1/job_service.grpc.pb.h"
#include "headcount/v1/result_service.grpc.pb.h"

namespace headcount::cli {

class Context {
 public:
  // Set by the global flags before a command runs.
  std::string server = "127.0.0.1:7433";
  std::string project = "default";
  std::string user;  // sent with each call; empty: the login name
  bool json = false;
  std::string color = "auto";
  int exit_code = kOk;

  const Style& style();

  v1::JobService::Stub& jobs();
  v1::ResultService::Stub& results();
  v1::CatalogService::Stub& catalog();

  // Prepares a call: user metadata and, unless it is zero, a deadline.
  void Prepare(grpc::ClientContext* context,
               std::chrono::seconds deadline = std::chrono::seconds(30));

  // Makes one unary call: `method` is a pointer to the stub's member. Errors have our reason and
  // field payloads back.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    Prepare(&context);
    return FromCall((stub.*method)(&context, request, response));
  }
  absl::Status FromCall(const grpc::Status& status);

  // "abc" -> "projects/default/jobs/abc"; full names stay.
  std::string JobName(const std::string& job) const;
  // The other way, for people: the last part of a job's name.
  static std::string ShortName(const std::string& name);

  // One JSON object on a line of standard output, proto field names as in the contract.
  void PrintJson(const google::protobuf::Message& message);
  // Prints the error (as JSON on standard output with --json, for people on standard error) and
  // sets the exit code.
  void Fail(const absl::Status& status);

 private:
  std::shared_ptr<grpc::Channel> channel();

  std::unique_ptr<Style> style_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ResultService::Stub> results_;
  std::unique_ptr<v1::CatalogService::Stub> catalog_;
};

}  // namespace headcount::cli
