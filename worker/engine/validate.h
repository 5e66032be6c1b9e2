// What a unit must be before any work starts. Pure functions.
// Errors: INVALID_ARGUMENT naming the row or rule, the field, the value and the limit.

#pragma once

#include "absl/status/status.h"
#include "common/catalog/model_config.h"
#include "worker/engine/engine.h"

namespace headcount::engine {

absl::Status ValidateUnit(const catalog::ModelConfig& config, const Unit& unit);
absl::Status ValidateUnit(const catalog::ModelConfig& config, const GenerateUnit& unit);

}  // namespace headcount::engine
