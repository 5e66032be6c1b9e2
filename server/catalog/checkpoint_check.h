// Whether a checkpoint's weights are those its config.json describes: embedding and attention
// projections are there with the shapes that follow from it, and of a type that can be run. Headers
// only; so a job on a wrong checkpoint is refused when it is created. Pure function.
//
// FAILED_PRECONDITION naming the tensor, its shape or type, and what was expected.

#pragma once

#include "absl/status/status.h"
#include "common/catalog/model_config.h"
#include "common/catalog/safetensors.h"

namespace headcount::server {

absl::Status CheckCheckpoint(const catalog::ModelConfig& config,
                             const catalog::Checkpoint& checkpoint);

}  // namespace headcount::server
