// Page tokens of ListJobs: opaque to clients, bound to the request they continue. Pure functions.

#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace headcount::server {

// `binding` is what the token belongs to: parent and filter, serialised.
std::string MakePageToken(const std::string& binding, const std::string& last_job);

// The last job's name; empty for an empty token. INVALID_ARGUMENT (PAGE_TOKEN_MISMATCH) for a token
// of another request or none of ours.
absl::StatusOr<std::string> ParsePageToken(const std::string& binding, const std::string& token);

}  // namespace headcount::server
