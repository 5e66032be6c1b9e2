// Puts the bootstrap's intervals (bootstrap.h) beside a complete job's curves. GetCurves calls it
// when draws are asked for.
//
// Thread-safe. Errors: those of rule_outcomes.h; INVALID_ARGUMENT for a number of draws that is
// negative, above kMostDraws, or that makes more than kMostCells draws x documents x rules.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "headcount/v1/result_service.pb.h"
#include "server/results/curve_cache.h"
#include "server/results/rule_outcomes.h"

namespace headcount::results {

inline constexpr int kMostDraws = 10'000;
inline constexpr int kMostCurves = 50;
inline constexpr int64_t kMostCells = 20'000'000'000;

absl::Status CheckDraws(const v1::GetCurvesRequest& request);

// `curves` are finished otherwise: points sorted, sums made.
absl::Status AddIntervals(OutcomeReader& reader, const JobResults& results,
                          const v1::GetCurvesRequest& request, const RuleOutcomes& baseline,
                          CurveCache* cache, v1::Curves* curves);

}  // namespace headcount::results
