// Statistics against numbers that were computed independently: lm-evaluation-harness's own
// (standard errors), exact fractions (McNemar), numpy (clustered errors).

#include "server/results/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace headcount::results {
namespace {

TEST(Statistics, StandardErrorIsTheHarness) {
  const double one_wrong[] = {1, 0, 1, 1};
  EXPECT_DOUBLE_EQ(StandardError(one_wrong), .25);
  const double half[] = {1, 0};
  EXPECT_DOUBLE_EQ(StandardError(half), .5);
  const double three_of_ten[] = {1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(StandardError(three_of_ten), 0.15275252316519466);
  const double alone[] = {1};
  EXPECT_TRUE(std::isnan(StandardError(alone)));
  EXPECT_TRUE(std::isnan(Mean({})));
}

TEST(Statistics, ShareHasTheSameErrorAsItsArray) {
  EXPECT_DOUBLE_EQ(StandardErrorOfShare(3, 4), .25);
  EXPECT_DOUBLE_EQ(StandardErrorOfShare(1, 2), .5);
  EXPECT_DOUBLE_EQ(StandardErrorOfShare(3, 10), 0.15275252316519466);
  EXPECT_EQ(StandardErrorOfShare(5, 5), 0);
  EXPECT_TRUE(std::isnan(StandardErrorOfShare(1, 1)));
}

TEST(Statistics, PooledErrorIsTheHarnessGroup) {
  const GroupPart parts[] = {{100, 0.0460566186}, {152, 0.0406894}, {1534, 0.011059}};
  EXPECT_NEAR(PooledStandardError(parts), 0.010432830392778283, 1e-15);
}

TEST(Statistics, PooledErrorSkipsWhatHasNone) {
  // A subtask of one document has no error of its own; it still counts in N and k.
  const GroupPart parts[] = {{4, .25}, {1, std::nan("")}};
  EXPECT_DOUBLE_EQ(PooledStandardError(parts), std::sqrt(3 * 4 * .0625 / (5 - 2) / 5));
  const GroupPart singles[] = {{1, 0}, {1, 0}};
  EXPECT_TRUE(std::isnan(PooledStandardError(singles)));
}

TEST(Statistics, PairedDifference) {
  const double d[] = {0, -1, 0, 1, -1, 0, 0, -1, 0, 0};
  const int32_t cluster[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2};
  const PairedDifference paired = ComparePaired(d, cluster, 3);
  EXPECT_DOUBLE_EQ(paired.mean, -.2);
  EXPECT_NEAR(paired.standard_error_iid, 0.2, 1e-15);
  EXPECT_NEAR(paired.standard_error, 0.12, 1e-15);
}

TEST(Statistics, OneDocumentAClusterIsIid) {
  const double d[] = {1, 0, -1, -1, 0, 0};
  std::vector<int32_t> cluster(6);
  std::iota(cluster.begin(), cluster.end(), 0);
  const PairedDifference paired = ComparePaired(d, cluster, 6);
  EXPECT_NEAR(paired.standard_error, paired.standard_error_iid, 1e-15);
}

TEST(Statistics, OneClusterFallsBackToIid) {
  const double d[] = {1, 0, -1, -1};
  const int32_t cluster[] = {2, 2, 2, 2};
  const PairedDifference paired = ComparePaired(d, cluster, 5);
  EXPECT_EQ(paired.standard_error, paired.standard_error_iid);
  EXPECT_GT(paired.standard_error_iid, 0);
}

TEST(Statistics, McNemarIsExact) {
  const struct {
    int64_t to_wrong, to_right;
    double p;  // by exact rational arithmetic
  } cases[] = {
      {0, 0, 1},
      {1, 0, 1},
      {3, 3, 1},
      {0, 5, 0.0625},
      {2, 14, 0.004180908203125},
      {10, 25, 0.01667384780012071},
      {100, 140, 0.011664092317677663},
      {700, 900, 6.319484959450139e-07},
      {7000, 7100, 0.4044337693689359},
      {0, 60, 1.734723475976807e-18},
  };
  for (const auto& c : cases) {
    EXPECT_NEAR(McNemarExactP(c.to_wrong, c.to_right), c.p, 1e-10 * c.p)
        << c.to_wrong << " " << c.to_right;
    EXPECT_EQ(McNemarExactP(c.to_right, c.to_wrong), McNemarExactP(c.to_wrong, c.to_right));
  }
}

}  // namespace
}  // namespace headcount::results
