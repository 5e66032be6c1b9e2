// One call that sets up spdlog the same way in every program: one line an event on stderr, ISO time
// in UTC, level, text. Call it once from main.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace headcount {

// `level` is trace, debug, info, warn, error or off. INVALID_ARGUMENT otherwise.
absl::Status InitLogging(std::string_view program, const std::string& level);

}  // namespace headcount
