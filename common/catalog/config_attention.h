// The part of config.json that says what a token sees and how positions enter: rotary embedding,
// sliding windows, soft caps, scales. Called by model_config.cc once the sizes are read. Pure
// functions.
//
// Errors: as model_config.h.

#pragma once

#include "absl/status/status.h"
#include "common/catalog/model_config.h"
#include "common/catalog/settings.h"

namespace headcount::catalog {

absl::Status ReadAttention(const Settings& settings, ModelConfig& config);

}  // namespace headcount::catalog
