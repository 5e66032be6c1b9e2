// A score's distribution over samples for every query head: what GetHeadScores answers and the heat
// map shows. Mean and standard deviation in one pass; quantiles exactly, from as many heads at a
// time as fit in bounded memory, so in a few passes over the stored chunks for the largest jobs.
// Quantiles are those of numpy and R by default: ranks spread evenly over [0, 1], linear between.
//
// Values that are not finite, and samples whose run was not, are left out and counted. A head
// without any value has NaN everywhere. Thread-safe. Errors: those of score_reader.h;
// INVALID_ARGUMENT for an unknown score or subtask, `random` (which is not measured), quantiles
// outside [0, 1] or more than 100 of them, a threshold that is not finite.

#pragma once

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// Heads' columns of scores held at once, in bytes.
inline constexpr int64_t kHeadScoresMemory = int64_t{64} << 20;

// Leaves kv_heads at 0: the store does not know it; the API fills it in from the catalogue.
absl::StatusOr<v1::HeadScores> GetHeadScores(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                             const v1::GetHeadScoresRequest& request,
                                             int64_t memory = kHeadScoresMemory);

}  // namespace headcount::results
