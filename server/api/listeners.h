// The two gRPC servers of headcountd, one for clients and one for workers and admin: ports, health,
// reflection. Not thread-safe but for what gRPC does itself. Errors: UNAVAILABLE naming the key and
// the address.

#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace headcount::server {

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // host:port, with the port that was chosen
};

struct ListenerOptions {
  std::string key;  // of the configuration, for errors
  std::string listen;
  bool reflection = false;
  std::vector<grpc::Service*> services;
  std::vector<std::string> health_names;  // reported as serving, besides ""
};

absl::StatusOr<Listener> Listen(const ListenerOptions& options);

// The health service's answer for all names from now on: NOT_SERVING.
void ReportStopping(Listener& listener);

}  // namespace headcount::server
