// Areas and shares on polylines whose values can be told by hand, and every number published for
// the paper's 14 models from their published points.

#include "server/results/polyline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

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

TEST(Polyline, CommonLimitIsTheSmallestEnd) {
  const std::vector<std::vector<Point>> curves = {{{0, 1}, {5, 1}}, {{0, 1}, {3, 1}}, {}};
  EXPECT_EQ(CommonLimit(curves), 3);
  EXPECT_TRUE(std::isnan(CommonLimit({})));
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

double Rounded(double x, int decimals) {
  const double scale = std::pow(10, decimals);
  return std::round(x * scale) / scale;
}

TEST(Published, EveryAreaAndShareIsReproduced) {
  std::ifstream file("tests/golden/paper/published_mmlu.json");
  ASSERT_TRUE(file) << "run from the repository's root";
  const nlohmann::json models = nlohmann::json::parse(file);
  int compared = 0;
  for (const auto& [name, model] : models.items()) {
    const double floor = model["baseline"].get<double>() - 1;
    std::string best_other;
    double best_other_share = -1;
    double first_token_share = -1;
    std::string best;
    double best_share = -1;
    for (const auto& [alias, pairs] : model["curves"].items()) {
      SCOPED_TRACE(name + " " + alias);
      std::vector<Point> points;
      for (const auto& pair : pairs) points.push_back({pair[0], pair[1]});
      points = SortedByX(points);
      EXPECT_NEAR(Rounded(NormalizedArea(points), 2), model["auc"][alias].get<double>(), 1e-9);
      const double share = FindWithinMargin(points, floor).largest;
      EXPECT_NEAR(Rounded(share, 4), model["within_1_point"][alias].get<double>(), 1e-9);
      compared += 2;
      if (share > best_share) {
        best_share = share;
        best = alias;
      }
      if (alias == "Dormant") {
        first_token_share = share;
      } else if (share > best_other_share) {
        best_other_share = share;
        best_other = alias;
      }
    }
    const auto& table = model["table2"];
    EXPECT_NEAR(Rounded(first_token_share, 2), table["avg_weight_of_first_token"], 1e-9) << name;
    EXPECT_NEAR(Rounded(best_other_share, 2), table["best_other_percent"], 1e-9) << name;
    EXPECT_EQ(best_other, table["best_other"]) << name;
    EXPECT_EQ(best, table["best_score"]) << name;
  }
  EXPECT_EQ(compared, 14 * 14 * 2);
}

}  // namespace
}  // namespace headcount::results
