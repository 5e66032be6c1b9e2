// See context.h.

#include "client/cli/context.h"

#include <google/protobuf/util/json_util.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"

namespace headcount::cli {
namespace {

std::string LoginName() {
  const passwd* entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : "";
}

}  // namespace

const Style& Context::style() {
  if (!style_) style_ = std::make_unique<Style>(DetectStyle(color));
  return *style_;
}

std::shared_ptr<grpc::Channel> Context::channel() {
  if (!channel_) channel_ = rpc::MakeChannel(server);
  return channel_;
}

v1::JobService::Stub& Context::jobs() {
  if (!jobs_) jobs_ = v1::JobService::NewStub(channel());
  return *jobs_;
}

v1::ResultService::Stub& Context::results() {
  if (!results_) results_ = v1::ResultService::NewStub(channel());
  return *results_;
}

v1::CatalogService::Stub& Context::catalog() {
  if (!catalog_) catalog_ = v1::CatalogService::NewStub(channel());
  return *catalog_;
}

void Context::Prepare(grpc::ClientContext* context, std::chrono::seconds deadline) {
  if (user.empty()) user = LoginName();
  if (!user.empty()) context->AddMetadata(rpc::kUserMetadata, user);
  // A gRPC deadline is a wall-clock time point: the one place where a client asks the system for it
  // is gRPC itself.
  if (deadline.count() > 0) {
    const gpr_timespec span = gpr_time_from_seconds(deadline.count(), GPR_TIMESPAN);
    context->set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span));
  }
}

absl::Status Context::FromCall(const grpc::Status& status) {
  const absl::Status out = rpc::FromGrpc(status);
  if (out.code() != absl::StatusCode::kUnavailable || ReasonOf(out).has_value()) return out;
  return absl::UnavailableError(absl::StrCat(
      "no answer from ", server, " (", std::string(out.message()),
      "); is headcountd running there? --server or HEADCOUNT_SERVER names another address"));
}

std::string Context::JobName(const std::string& job) const {
  if (job.rfind("projects/", 0) == 0) return job;
  return absl::StrCat("projects/", project, "/jobs/", job);
}

std::string Context::ShortName(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

void Context::PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok())
    text = nlohmann::json{{"error", {{"code", "INTERNAL"}, {"message", status.ToString()}}}}.dump();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Context::Fail(const absl::Status& status) {
  exit_code = ExitCodeOf(status);
  const std::string code = absl::StatusCodeToString(status.code());
  if (json) {
    nlohmann::json error = {{"code", code}, {"message", std::string(status.message())}};
    if (const auto reason = ReasonOf(status)) error["reason"] = *reason;
    if (const auto field = FieldOf(status)) error["field"] = *field;
    std::printf("%s\n", nlohmann::json{{"error", error}}
                            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
    std::fflush(stdout);
  } else {
    std::fprintf(stderr, "headcount: %s: %s\n", code.c_str(),
                 Printable(std::string(status.message())).c_str());
  }
}

}  // namespace headcount::cli
