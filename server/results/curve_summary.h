// What one accuracy curve comes down to: its areas and the largest share within a margin. The point
// estimate of a job's curves and every draw of their bootstrap come through here. Pure functions,
// shares and accuracies in percent; NaN where undefined.

#pragma once

#include <array>
#include <span>
#include <vector>

#include "server/results/polyline.h"

namespace headcount::results {

// The numbers that get an interval.
enum class CurveMetric { kAuc = 0, kAucCommon = 1, kAuc10 = 2, kLargestShare = 3 };
inline constexpr int kCurveMetrics = 4;

struct CurveSummary {
  std::array<double, kCurveMetrics> values{};
  WithinMargin within;

  double of(CurveMetric metric) const { return values[static_cast<size_t>(metric)]; }
};

// `polylines` sorted by x, one a curve; empty ones are allowed. `floor` is the baseline's accuracy
// less the margin. Areas up to a common limit end at the smallest end point of the curves that zero
// something; it is returned in `common_limit` where that is not null.
std::vector<CurveSummary> SummariseCurves(std::span<const std::vector<Point>> polylines,
                                          double floor, double* common_limit = nullptr);

}  // namespace headcount::results
