// Score values <-> fractions of inactive heads, from a job's stored scores, without a GPU. The
// planner resolves a sweep's fractions with it, the API answers QueryThresholds.
//
// All finite scores over (sample, layer, head) are pooled: sorted x_1..x_N with y_i = i / N. The
// threshold of a fraction f is the linear interpolation of (y, x) at y = f where a head is inactive
// below, at y = 1 - f where it is inactive above, y clamped to [1/N, 1]. The x_i are exact order
// statistics, found by selection in passes (quantiles.h), in bounded memory. Values that are not
// finite, and samples whose run was not, are left out and counted.
//
// Two or three passes over the stored chunks, however many scores are asked for at once: ask for
// all scores of a job together. `random` is uniform on [0, 1) by definition: its threshold is the
// fraction itself, nothing is read.
//
// Thread-safe. Errors: FAILED_PRECONDITION (RESULTS_NOT_READY) where nothing is stored yet;
// FAILED_PRECONDITION (NON_FINITE) where no finite score is left; INVALID_ARGUMENT for a fraction
// outside [0, 1], a value that is NaN or layers that do not fit the model; NOT_FOUND, DATA_LOSS
// from the stores.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "common/catalog/scores.h"
#include "headcount/v1/result_service.pb.h"
#include "server/results/score_pool.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// The thresholds of `fractions` (any order) for one score, from the job's complete score stage
// (RESULTS_NOT_READY before).
absl::StatusOr<std::vector<double>> ThresholdsAtFractions(
    store::JobStore& jobs, store::ArtifactStore& artifacts, const std::string& job,
    const catalog::Score& score, std::span<const double> fractions, const ScorePool& pool);

// The same for many scores in the same passes: [score][fraction].
absl::StatusOr<std::vector<std::vector<double>>> ThresholdsAtFractions(
    store::JobStore& jobs, store::ArtifactStore& artifacts, const std::string& job,
    std::span<const catalog::Score* const> scores, std::span<const double> fractions,
    const ScorePool& pool);

// Fractions to thresholds and values to fractions: the share of pooled scores strictly on the
// inactive side. Answers from what is stored so far; `complete` says whether that is all. `model`
// is the job's, null where it cannot be found any more: questions about KV groups are
// FAILED_PRECONDITION then.
absl::StatusOr<v1::QueryThresholdsResponse> QueryThresholds(
    store::JobStore& jobs, store::ArtifactStore& artifacts,
    const v1::QueryThresholdsRequest& request, const catalog::ModelConfig* model = nullptr);

}  // namespace headcount::results
