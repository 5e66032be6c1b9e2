// absl::Status <-> google.rpc.Status, the form in which errors are stored with a job and travel to
// clients: an ErrorInfo {reason, domain "headcount"} always, a BadRequest where the status names a
// field, a RetryInfo where waiting helps. Used at the gRPC border (common/rpc), by the job flow
// (Job.error) and by workers (CurrentTask.error). Pure functions; a conversion never fails.

#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace headcount::format {

inline constexpr char kErrorDomain[] = "headcount";

// Reason and field (common/base/errors.h) are kept; a status without a reason gets its code's name.
// Texts are cut to what fits a gRPC trailer and made valid UTF-8. OK gives an empty message.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// The inverse. A code that Abseil does not know becomes UNKNOWN.
absl::Status FromRpcStatus(const google::rpc::Status& status);

}  // namespace headcount::format
