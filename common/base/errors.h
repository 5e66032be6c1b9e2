// The few shapes that errors have here: each names the field, the offending value and the limit.
// They are plain absl::Status with payloads; common/rpc turns those into google.rpc.ErrorInfo and
// BadRequest at the gRPC border. Pure functions.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace headcount {

// INVALID_ARGUMENT "field: message (got value)". `reason` is UPPER_SNAKE, at most 63 characters.
absl::Status InvalidField(std::string_view field, std::string_view value, std::string_view message,
                          std::string_view reason = "INVALID_FIELD");

// UNIMPLEMENTED naming the field: defined in the contract, not served by this version.
absl::Status UnimplementedField(std::string_view field);

// The status with a machine-readable reason (UPPER_SNAKE), kept through the gRPC border.
absl::Status WithReason(absl::Status status, std::string_view reason);
// The status with the request field it is about.
absl::Status WithField(absl::Status status, std::string_view field);

// What the above attached, if anything.
std::optional<std::string> ReasonOf(const absl::Status& status);
std::optional<std::string> FieldOf(const absl::Status& status);

// The same status with "context: " before its message; payloads are kept.
absl::Status Annotate(const absl::Status& status, std::string_view context);

}  // namespace headcount
