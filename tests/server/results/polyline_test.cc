// Areas and shares on polylines whose values can be told by hand.

#include "server/results/polyline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "server/results/curve_summary.h"

namespace headcount::results {
namespace {

TEST(Polyline, Areas) {
  const std::vector<Point> points = {{0, 10}, {10, 10}, {20, 0}};
  EXPECT_DOUBLE_EQ(NormalizedArea(points), 7.5);
  EXPECT_DOUBLE_EQ(NormalizedAreaUpTo(points, 10), 10);
  EXPECT_DOUBLE_EQ(NormalizedAreaUpTo(points, 15), (100 + 37.5) / 15);
  EXPECT_DOUBLE_EQ(NormalizedAreaUpTo(points, 20), 7.5);
  EXPECT_TRUE(std::isnan(NormalizedAreaUpTo(points, 20.1)));
  EXPECT_TRUE(std::isnan(NormalizedAreaUpTo(points, 0)));
  EXPECT_TRUE(std::isnan(NormalizedArea({})));
  const std::vector<Point> one = {{3, 4}};
  EXPECT_TRUE(std::isnan(NormalizedArea(one)));
}

TEST(Polyline, SortsByXAndKeepsOrderOfEquals) {
  const Point points[] = {{2, 1}, {0, 2}, {2, 3}, {1, 4}};
  const std::vector<Point> sorted = SortedByX(points);
  const double y[] = {2, 4, 1, 3};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(sorted[i].y, y[i]);
}

TEST(Polyline, CommonLimitIsTheSmallestEndOfWhatZeroesSomething) {
  const std::vector<std::vector<Point>> curves = {
      {{0, 1}, {5, 1}}, {{0, 1}, {3, 2}}, {}, {{0, 1}, {0, 1}}};
  double limit = 0;
  const std::vector<CurveSummary> summaries = SummariseCurves(curves, 0, &limit);
  EXPECT_EQ(limit, 3);
  EXPECT_DOUBLE_EQ(summaries[0].of(CurveMetric::kAucCommon), 1);
  EXPECT_DOUBLE_EQ(summaries[1].of(CurveMetric::kAucCommon), 1.5);
  EXPECT_TRUE(std::isnan(summaries[3].of(CurveMetric::kAucCommon)));
  SummariseCurves({}, 0, &limit);
  EXPECT_TRUE(std::isnan(limit));
}

TEST(Polyline, WithinMargin) {
  const std::vector<Point> falls = {{0, 50}, {10, 50}, {20, 40}};
  WithinMargin within = FindWithinMargin(falls, 49);
  EXPECT_DOUBLE_EQ(within.largest, 11);
  EXPECT_FALSE(within.at_least);
  EXPECT_DOUBLE_EQ(within.first_crossing, 11);

  // It leaves the margin, returns and leaves it again: the last exit is the largest share.
  const std::vector<Point> returns = {{0, 50}, {10, 40}, {20, 50}, {30, 40}};
  within = FindWithinMargin(returns, 45);
  EXPECT_DOUBLE_EQ(within.largest, 25);
  EXPECT_DOUBLE_EQ(within.first_crossing, 5);

  const std::vector<Point> holds = {{0, 50}, {10, 44}, {20, 49.5}};
  within = FindWithinMargin(holds, 49);
  EXPECT_EQ(within.largest, 20);
  EXPECT_TRUE(within.at_least);
  EXPECT_DOUBLE_EQ(within.first_crossing, 10 / 6.0);

  const std::vector<Point> never_leaves = {{0, 50}, {10, 51}};
  within = FindWithinMargin(never_leaves, 49);
  EXPECT_TRUE(within.at_least);
  EXPECT_TRUE(std::isnan(within.first_crossing));

  const std::vector<Point> starts_below = {{0, 40}, {10, 60}};
  within = FindWithinMargin(starts_below, 49);
  EXPECT_EQ(within.largest, 0);
  EXPECT_FALSE(within.at_least);
  EXPECT_EQ(within.first_crossing, 0);
}

}  // namespace
}  // namespace headcount::results
