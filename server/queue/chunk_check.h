// Checks a worker's chunk against the plan of its stage before it is kept, and counts what it adds
// to the curves. One function a stage; the report sink calls them. Pure functions.
//
// Errors: INVALID_ARGUMENT (BAD_CHUNK) naming the field, its value and what the plan says;
// FAILED_PRECONDITION for a newer chunk format or another numerics version.

#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"

namespace headcount::queue {

struct CheckedChunk {
  v1::UnitCounts counts;
  v1::RunInfo run;  // empty for a manifest
};

absl::StatusOr<CheckedChunk> CheckManifestChunk(std::string_view bytes,
                                                const catalog::ModelConfig& model);
absl::StatusOr<CheckedChunk> CheckScoreChunk(std::string_view bytes, const v1::UnitRange& range,
                                             const catalog::ModelConfig& model,
                                             const v1::Manifest& manifest);
absl::StatusOr<CheckedChunk> CheckAblateChunk(std::string_view bytes, const v1::UnitRange& range,
                                              const v1::StagePlan& plan,
                                              const catalog::ModelConfig& model,
                                              const v1::Manifest& manifest);

}  // namespace headcount::queue
