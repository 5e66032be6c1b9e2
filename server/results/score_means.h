// The mean of many scores over the samples of a score job, for every head, in one pass. Comparisons
// of scores with something else, a knockout or another model, start from it. Values that are not
// finite, and samples whose run was not, are left out; a head without any has NaN. Thread-safe.
// Errors: those of score_reader.h.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/scores.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

struct ScoreMeans {
  int layers = 0;
  int heads = 0;
  int64_t samples = 0;
  std::vector<std::vector<double>> values;  // [score][layer x heads + head]
};

absl::StatusOr<ScoreMeans> ReadScoreMeans(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                          const std::string& job,
                                          std::span<const catalog::Score* const> scores);

}  // namespace headcount::results
