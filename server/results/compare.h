// Two score jobs side by side: another model, another task, another score, or a checkpoint of the
// same training. For every head, where the shapes agree, and for every layer, laid over each other
// by relative depth: how far the distributions of the score lie apart (Wasserstein-1,
// Kolmogorov-Smirnov), how the heads' means are ranked, which heads are inactive in both, and,
// where both ran the same token ids, how often a head changed its state on the same sample.
//
// One score after the other, all its values of both jobs in memory. Thread-safe. Errors: those of
// score_reader.h; INVALID_ARGUMENT for an unknown score, `random`, a fraction outside (0, 1);
// RESOURCE_EXHAUSTED (TOO_LARGE) above kMostCompared values a job.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// Values of one score of one job: 14,042 samples x 48 layers x 40 heads fit.
inline constexpr int64_t kMostCompared = 30'000'000;

absl::StatusOr<v1::Comparison> CompareScores(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                             const v1::CompareScoresRequest& request);

// Every side of a compare job against the first, or the one before it. WRONG_KIND for another kind;
// RESULTS_NOT_READY before its score jobs have stored a unit each.
absl::StatusOr<v1::Comparisons> GetComparison(store::JobStore& jobs,
                                              store::ArtifactStore& artifacts,
                                              const v1::GetComparisonRequest& request);

}  // namespace headcount::results
