// The numbers that sum up an accuracy curve: areas and largest share within a margin. A curve is
// the polyline through its points (x, y), x the share of heads zeroed and y the accuracy. Units are
// the caller's; a service's curves and published ones go through the same functions, both in
// percent. Pure functions, no errors: what is undefined is NaN.

#pragma once

#include <span>
#include <vector>

namespace headcount::results {

struct Point {
  double x = 0;
  double y = 0;
};

// By x; points of equal x keep their order.
std::vector<Point> SortedByX(std::span<const Point> points);

// All of the following take points sorted by x.

// Trapezoid area divided by the range of x. NaN for fewer than two points or no range.
double NormalizedArea(std::span<const Point> points);

// The same over [first x, limit], y interpolated at the limit. NaN where the curve ends before the
// limit or the range is empty.
double NormalizedAreaUpTo(std::span<const Point> points, double limit);

struct WithinMargin {
  double largest = 0;         // largest x at which the polyline is at least `floor`
  bool at_least = false;      // that is the end point: the true one may be larger
  double first_crossing = 0;  // smallest x beyond which it falls below; NaN: never
};

// `floor` is the baseline less the margin. A curve that starts below it has largest = 0 and first
// crossing at its start. NaNs for no points.
WithinMargin FindWithinMargin(std::span<const Point> points, double floor);

}  // namespace headcount::results
