// Where a watcher is in a job's events, as opaque bytes it hands back to go on. Pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace headcount::server {

// After event `sequence` of the job with this uid.
std::string MakeResumeToken(const std::string& job_uid, int64_t sequence);

// The sequence; 0 for an empty token. OUT_OF_RANGE (RESUME_TOKEN_EXPIRED) for a token of another
// job or beyond `last_sequence`; INVALID_ARGUMENT for bytes that are no token.
absl::StatusOr<int64_t> ParseResumeToken(const std::string& token, const std::string& job_uid,
                                         int64_t last_sequence);

}  // namespace headcount::server
