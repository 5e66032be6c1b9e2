// scores.npy: a score, or a base measurement, of every sample as numpy reads it. Called by
// artifacts.cc. Thread-safe as far as the stores are; writes one file, which nobody else may write.
// Errors: INVALID_ARGUMENT naming `score`; those of score_reader.h; RESOURCE_EXHAUSTED for a full
// disk.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/results/job_results.h"

namespace headcount::exports {

// `score` is an id, an alias or "measurement:<id>". Format version 1.0, '<f4', C order, shape
// (samples of the job, layers, query heads).
absl::Status WriteScoresNpy(store::JobStore& jobs, store::ArtifactStore& artifacts,
                            const results::JobResults& results, std::string_view score,
                            const std::string& path);

}  // namespace headcount::exports
