// See polyline.h.

#include "server/results/polyline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double Trapezoid(const Point& a, const Point& b) { return (b.x - a.x) * (a.y + b.y) / 2; }

// Where the segment from a to b, of which exactly one end is at least `y`, meets y.
double CrossingX(const Point& a, const Point& b, double y) {
  return a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x);
}

}  // namespace

std::vector<Point> SortedByX(std::span<const Point> points) {
  std::vector<Point> sorted(points.begin(), points.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Point& a, const Point& b) { return a.x < b.x; });
  return sorted;
}

double NormalizedArea(std::span<const Point> points) {
  return points.empty() ? kNaN : NormalizedAreaUpTo(points, points.back().x);
}

double NormalizedAreaUpTo(std::span<const Point> points, double limit) {
  if (points.size() < 2 || !(points.back().x >= limit) || !(points.front().x < limit)) return kNaN;
  double area = 0;
  for (size_t i = 1; i < points.size() && points[i - 1].x < limit; ++i) {
    const Point& a = points[i - 1];
    Point b = points[i];
    if (b.x > limit) {
      b.y = a.y + (limit - a.x) / (b.x - a.x) * (b.y - a.y);
      b.x = limit;
    }
    area += Trapezoid(a, b);
  }
  return area / (limit - points.front().x);
}

WithinMargin FindWithinMargin(std::span<const Point> points, double floor) {
  if (points.empty()) return {kNaN, false, kNaN};
  WithinMargin result;
  if (points.front().y < floor) {
    result.first_crossing = points.front().x;
    return result;
  }
  result.first_crossing = kNaN;
  result.largest = points.back().x;
  result.at_least = points.back().y >= floor;
  for (size_t i = 1; i < points.size(); ++i) {
    const Point& a = points[i - 1];
    const Point& b = points[i];
    if (a.y < floor || b.y >= floor) continue;
    const double x = CrossingX(a, b, floor);
    if (std::isnan(result.first_crossing)) result.first_crossing = x;
    if (!result.at_least) result.largest = x;  // the last crossing stays
  }
  return result;
}

}  // namespace headcount::results
