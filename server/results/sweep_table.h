// The curves of a sweep over several models and tasks side by side: each side's curves and table 2,
// ranks of the scores, and how far the ranks agree between models and between tasks. What is not
// stored yet is left out, so it can be asked for while the job runs.
//
// Thread-safe. Errors: NOT_FOUND; WRONG_KIND for a job that is not such a sweep; those of curves.h.

#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/job_store.h"

namespace headcount::results {

using CurvesFn = std::function<absl::StatusOr<v1::Curves>(const v1::GetCurvesRequest& request)>;

absl::StatusOr<v1::SweepTable> GetSweepTable(store::JobStore& jobs, const CurvesFn& curves,
                                             const v1::GetSweepTableRequest& request);

}  // namespace headcount::results
