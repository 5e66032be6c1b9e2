// absl::Status <-> grpc::Status: the one place where our errors become what a client receives, and
// the reverse. The google.rpc.Status of common/format/rpc_status.h travels in the trailer
// grpc-status-details-bin, so reason and field survive the round trip. Used by every service and
// every client. Thread-safe; a conversion never fails.

#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace headcount::rpc {

// UNKNOWN never leaves: it becomes INTERNAL. Every INTERNAL gets a correlation id in its message
// and, with the same id, a line in the log.
grpc::Status ToGrpc(const absl::Status& status);

// What a call ended with. Errors that gRPC itself made (a server that is away, a message over the
// limit) come through with their code and no reason.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace headcount::rpc
