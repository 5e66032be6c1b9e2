// Names of resources in requests: checked before anything is looked up. Pure functions.
// INVALID_ARGUMENT naming the field, the value and the form; NOT_FOUND (PROJECT_NOT_FOUND) for a
// project that this server does not have.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount::server {

inline constexpr char kDefaultProject[] = "default";

// The project of "projects/{project}"; empty means the default one.
absl::StatusOr<std::string> ParseParent(const std::string& field, const std::string& parent);

// "projects/{project}/jobs/{job}".
std::string JobName(const std::string& project, const std::string& id);
absl::Status CheckJobName(const std::string& field, const std::string& name);

}  // namespace headcount::server
