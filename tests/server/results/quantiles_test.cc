// The selection against sorting: random, tied, tiny and hostile inputs.

#include "server/results/quantiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace headcount::results {
namespace {

// Feeds `values` in pieces until the selector is done; how many passes that took.
int Feed(RankSelector& selector, const std::vector<float>& values) {
  int passes = 0;
  while (!selector.done()) {
    constexpr size_t kPiece = 1000;
    for (size_t at = 0; at < values.size(); at += kPiece) {
      selector.Add(std::span(values).subspan(at, std::min(kPiece, values.size() - at)));
    }
    selector.EndPass();
    ++passes;
  }
  return passes;
}

// Selects `wanted` ranks and compares each with the sorted values.
int ExpectLikeSorting(const std::vector<float>& values, std::vector<int64_t> wanted) {
  RankSelector selector([&](int64_t) { return wanted; });
  const int passes = Feed(selector, values);
  std::vector<float> sorted;
  for (const float x : values) {
    if (std::isfinite(x)) sorted.push_back(x);
  }
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(selector.count(), static_cast<int64_t>(sorted.size()));
  EXPECT_EQ(selector.non_finite(), static_cast<int64_t>(values.size() - sorted.size()));
  for (const int64_t rank : wanted) {
    EXPECT_EQ(selector.At(rank), sorted[static_cast<size_t>(rank)]) << rank;
  }
  return passes;
}

std::vector<int64_t> EveryRank(size_t n) {
  std::vector<int64_t> ranks(n);
  for (size_t i = 0; i < n; ++i) ranks[i] = static_cast<int64_t>(i);
  return ranks;
}

TEST(RankSelector, EveryRankOfFewValues) {
  for (size_t n = 1; n <= 40; ++n) {
    std::mt19937 random(static_cast<unsigned>(n));
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& x : values) x = normal(random);
    ExpectLikeSorting(values, EveryRank(n));
  }
}

TEST(RankSelector, ManyValuesFewRanksInTwoPasses) {
  std::mt19937 random(7);
  std::lognormal_distribution<float> lognormal(0, 3);
  std::vector<float> values(200'000);
  for (float& x : values) x = lognormal(random);
  EXPECT_EQ(ExpectLikeSorting(values, {0, 9'999, 10'000, 100'000, 199'999}), 2);
}

TEST(RankSelector, ManyRanksInThreePasses) {
  std::mt19937 random(8);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(50'000);
  for (float& x : values) x = uniform(random);
  std::vector<int64_t> wanted;
  for (int64_t rank = 0; rank < 50'000; rank += 50) wanted.push_back(rank);
  EXPECT_EQ(ExpectLikeSorting(values, wanted), 3);
}

TEST(RankSelector, Ties) {
  std::mt19937 random(9);
  std::vector<float> values(10'000);
  for (float& x : values) x = static_cast<float>(random() % 5) - 2;  // -2 ... 2, zeros of one sign
  values[17] = -0.0f;
  ExpectLikeSorting(values, {0, 1'999, 2'000, 2'001, 5'000, 9'999});
  ExpectLikeSorting(std::vector<float>(1'000, 3.5f), {0, 500, 999});
}

TEST(RankSelector, AnyBitPattern) {
  std::mt19937 random(10);
  std::vector<float> values(100'000);
  for (float& x : values) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
  ExpectLikeSorting(values, {0, 1, 250, 40'000, 50'000, 99'000});
}

TEST(RankSelector, NeighboursDifferInTheLastBit) {
  std::vector<float> values;
  float x = 1;
  for (int i = 0; i < 3'000; ++i) {
    values.push_back(x);
    x = std::nextafter(x, 2.0f);
  }
  std::shuffle(values.begin(), values.end(), std::mt19937(11));
  ExpectLikeSorting(values, EveryRank(2'000));
}

TEST(RankSelector, NothingFinite) {
  RankSelector selector([](int64_t) { return std::vector<int64_t>{0}; });
  Feed(selector, {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF});
  EXPECT_EQ(selector.count(), 0);
  EXPECT_EQ(selector.non_finite(), 3);
  EXPECT_TRUE(std::isnan(selector.At(0)));
}

TEST(Interpolation, OnTheDistribution) {
  // y = .25, .5, .75, 1 at ranks 0 to 3, clamped below.
  EXPECT_EQ(AtDistribution(0, 4).lower, 0);
  EXPECT_EQ(AtDistribution(0, 4).weight, 0);
  EXPECT_EQ(AtDistribution(.5, 4).lower, 1);
  EXPECT_EQ(AtDistribution(.5, 4).weight, 0);
  EXPECT_EQ(AtDistribution(.625, 4).lower, 1);
  EXPECT_EQ(AtDistribution(.625, 4).upper, 2);
  EXPECT_EQ(AtDistribution(.625, 4).weight, .5);
  EXPECT_EQ(AtDistribution(1, 4).lower, 3);
  EXPECT_EQ(AtDistribution(1, 4).upper, 3);
  EXPECT_EQ(AtDistribution(.3, 1).lower, 0);
}

TEST(Interpolation, OnEvenRanks) {
  EXPECT_EQ(AtQuantile(.5, 4).lower, 1);
  EXPECT_EQ(AtQuantile(.5, 4).weight, .5);
  EXPECT_EQ(AtQuantile(0, 4).lower, 0);
  EXPECT_EQ(AtQuantile(1, 4).lower, 3);
  EXPECT_DOUBLE_EQ(AtQuantile(.5, 2).Between(10, 20), 15);
}

}  // namespace
}  // namespace headcount::results
