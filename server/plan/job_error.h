// Job.error as clients see it: an absl::Status with its reason and field as google.rpc details.
// Pure functions.

#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace headcount::plan {

// With ErrorInfo (domain "headcount", the status's reason or its code's name) and, where the status
// names a field, BadRequest.
google::rpc::Status ToJobError(const absl::Status& status);

// The reverse for what a worker reported: code, message, reason.
absl::Status FromJobError(const google::rpc::Status& error);

}  // namespace headcount::plan
