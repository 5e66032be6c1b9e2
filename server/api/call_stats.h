// Counts ended calls, for grpc_server_handled_total. Thread-safe.

#pragma once

#include "absl/status/status.h"

namespace headcount::server {

class CallStats {
 public:
  virtual ~CallStats() = default;
  // `method` is "JobService/CreateJob": a literal, never a client's text.
  virtual void Handled(const char* method, absl::StatusCode code) = 0;
};

}  // namespace headcount::server
