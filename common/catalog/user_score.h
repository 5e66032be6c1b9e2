// Scores of a user's own: a formula over measurements, a name and a direction, for the time of one
// job or question. Server and worker make the same of one. Pure functions. Errors: INVALID_ARGUMENT
// naming the field; for the formula with the position (from 0) of what is wrong.

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/catalog/scores.h"

namespace headcount::catalog {

// `name`: 1 to 40 of [a-z0-9_], beginning with a letter, and no id or alias of the table. The
// formula must use a measurement: what is the same for all heads says nothing about one. `path` is
// that of the score, as errors name it.
absl::StatusOr<std::shared_ptr<const Score>> MakeUserScore(std::string_view name,
                                                           std::string_view expression,
                                                           Inactive inactive,
                                                           const std::string& path);

}  // namespace headcount::catalog
