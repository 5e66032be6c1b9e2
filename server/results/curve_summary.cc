// See curve_summary.h.

#include "server/results/curve_summary.h"

#include <limits>

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool ZeroesSomething(const std::vector<Point>& points) {
  return !points.empty() && points.back().x > points.front().x;
}

}  // namespace

std::vector<CurveSummary> SummariseCurves(std::span<const std::vector<Point>> polylines,
                                          double floor, double* common_limit) {
  double limit = kNaN;
  for (const std::vector<Point>& points : polylines) {
    if (ZeroesSomething(points) && !(points.back().x >= limit)) limit = points.back().x;
  }
  if (common_limit != nullptr) *common_limit = limit;
  std::vector<CurveSummary> summaries;
  for (const std::vector<Point>& points : polylines) {
    CurveSummary& summary = summaries.emplace_back();
    const auto set = [&summary](CurveMetric metric, double value) {
      summary.values[static_cast<size_t>(metric)] = value;
    };
    set(CurveMetric::kAuc, NormalizedArea(points));
    set(CurveMetric::kAucCommon, NormalizedAreaUpTo(points, limit));
    set(CurveMetric::kAuc10, NormalizedAreaUpTo(points, 10));
    summary.within = {kNaN, false, kNaN};
    if (points.size() > 1) summary.within = FindWithinMargin(points, floor);
    set(CurveMetric::kLargestShare, summary.within.largest);
  }
  return summaries;
}

}  // namespace headcount::results
