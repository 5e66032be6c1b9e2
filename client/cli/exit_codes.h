// What the CLI's exit codes mean; scripts may rely on them. `headcount --help` prints this list.

#pragma once

#include "absl/status/status.h"

namespace headcount::cli {

enum ExitCode : int {
  kOk = 0,
  kJobFailed = 1,    // the job that was watched ended FAILED
  kUsage = 2,        // the command line is wrong
  kRefused = 3,      // the server refused the request: it is wrong, or its state does not allow it
  kNotFound = 4,     // no such job, model, task or artifact
  kUnavailable = 5,  // no server at the address, or it went away and did not come back in time
  kCancelled = 6,    // the job that was watched ended CANCELLED
  kInternal = 7,     // a bug or damaged data on the server
  kDiffers = 8,      // `rerun` found other results
};

inline ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnavailable;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
      return kInternal;
    default:
      return kRefused;
  }
}

}  // namespace headcount::cli
