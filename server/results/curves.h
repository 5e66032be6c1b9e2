// Accuracy curves of a job with everything that is said about them: points with standard errors and
// paired comparisons, areas, largest share within a margin. GetCurves and curves.parquet are made
// here.
//
// A curve is the rules of one label (a score id, `random`, a rule's own) with the baseline in
// front, by share of heads zeroed. Its areas and shares are taken over complete points only: while
// a job runs the others stand on other documents than the baseline. A point with more than 1 % of
// its documents not finite has failed; it is shown and likewise left out of areas and shares.
//
// Thread-safe. Errors: RESULTS_NOT_READY before the first document of the baseline or a rule is
// stored, those of job_results.h, INVALID_ARGUMENT for a margin that is not from 0 to 100 and for
// more bootstrap draws than curve_intervals.h allows.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/results/curve_cache.h"
#include "server/results/rule_outcomes.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// Where none is asked for, in percentage points.
inline constexpr double kDefaultMarginPoints = 1;

// Above this share of documents that are not finite a point has failed.
inline constexpr double kMostNonFinite = .01;

absl::StatusOr<v1::Curves> GetCurves(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                     const v1::GetCurvesRequest& request,
                                     CurveCache* cache = nullptr);

// Whether a point takes part in areas and shares: it is complete and has not failed.
bool Counts(const v1::CurvePoint& point);

// The subtask (MMLU subject) of every document of a manifest, by first appearance.
struct Subtasks {
  std::vector<int32_t> of_document;  // [0, count)
  int32_t count = 0;
};
Subtasks SubtasksOf(const v1::Manifest& manifest);

// One rule, and against the baseline over the documents that both have. Leaves nominal_fraction and
// threshold unset.
v1::CurvePoint MakePoint(const v1::Manifest& manifest, const Subtasks& subtasks,
                         const RuleOutcomes& baseline, const RuleOutcomes& rule);

// The threshold a rule was run with: the score's value, or p of a random one; NaN where it has
// none.
double ThresholdOf(const v1::ResolvedRule& rule);

// A curve "baseline" of the baseline alone, with nothing to sum up: what a job without rules has.
v1::Curve BaselineCurve(const v1::Curves& curves);

}  // namespace headcount::results
