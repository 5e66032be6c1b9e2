// Every version of the softmax loop against sums in double precision, in one block and in several,
// with hidden keys, large logits and values that are not finite.

#include "worker/engine/attention/one_pass_rows.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

class SoftmaxRowTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    RowKernels versions[3];
    if (GetParam() >= RowKernelVersions(versions)) {
      GTEST_SKIP() << "this processor has no such version";
    }
    run_ = versions[GetParam()].softmax;
    soft_cap_ = versions[GetParam()].soft_cap;
  }

  // The block with what pads it to whole lanes.
  static std::vector<float> Padded(std::vector<float> values) {
    while (values.size() % kLanes != 0) values.push_back(kHidden);
    return values;
  }

  SoftmaxRow run_ = nullptr;
  SoftCapRow soft_cap_ = nullptr;
};

TEST_P(SoftmaxRowTest, SumsAreThoseOfTheDefinition) {
  std::mt19937 random(7);
  for (float spread : {0.1f, 3.0f, 60.0f, 500.0f}) {
    std::normal_distribution<float> normal(spread, spread);
    std::vector<float> all;
    SoftmaxState state;
    double factor_of_first = 1;  // what the first block's values have to be multiplied with
    std::vector<float> first;
    for (size_t count : {37, 16, 1, 250}) {
      std::vector<float> block(count);
      for (float& value : block) value = normal(random);
      all.insert(all.end(), block.begin(), block.end());
      std::vector<float> values = Padded(block);
      const float correction = run_(values.data(), static_cast<int64_t>(values.size()), state);
      for (size_t i = count; i < values.size(); ++i) EXPECT_EQ(values[i], 0);
      if (first.empty()) {
        EXPECT_EQ(correction, 0);  // nothing came before
        first = values;
      } else {
        factor_of_first *= correction;
      }
    }
    double max = -1e300, sum = 0, weighted = 0;
    for (float s : all) max = std::max<double>(max, s);
    for (float s : all) {
      sum += std::exp(s - max);
      weighted += std::exp(s - max) * (s - max);
    }
    EXPECT_EQ(state.max, max);
    EXPECT_NEAR(state.sum, sum, 2e-6 * sum);
    EXPECT_NEAR(state.weighted, weighted, 5e-6 * (1 + std::fabs(weighted)));
    for (size_t i = 0; i < 37; ++i) {
      EXPECT_NEAR(first[i] * factor_of_first, std::exp(all[i] - max), 2e-6);
    }
  }
}

TEST_P(SoftmaxRowTest, OneKeyHasEntropyZeroExactly) {
  std::vector<float> values = Padded({-3.7f});
  SoftmaxState state;
  run_(values.data(), kLanes, state);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(state.sum, 1);
  EXPECT_EQ(state.weighted, 0);
}

TEST_P(SoftmaxRowTest, ABlockWithoutVisibleKeysChangesNothing) {
  std::vector<float> seen = Padded({1, 2, 3});
  SoftmaxState state;
  run_(seen.data(), kLanes, state);
  const SoftmaxState before = state;
  std::vector<float> hidden(2 * kLanes, kHidden);
  EXPECT_EQ(run_(hidden.data(), 2 * kLanes, state), 1);
  EXPECT_EQ(state.sum, before.sum);
  EXPECT_EQ(state.weighted, before.weighted);
  for (float value : hidden) EXPECT_EQ(value, 0);
}

TEST_P(SoftmaxRowTest, WhatIsNotANumberIsNotHidden) {
  for (size_t place : {0u, 5u, 17u}) {
    std::vector<float> values(2 * kLanes, 1.0f);
    values[place] = std::numeric_limits<float>::quiet_NaN();
    SoftmaxState state;
    run_(values.data(), 2 * kLanes, state);
    EXPECT_TRUE(std::isnan(state.sum)) << place;
    EXPECT_TRUE(std::isnan(values[place])) << place;
  }
}

TEST_P(SoftmaxRowTest, SoftCapsAreThoseOfTheDefinition) {
  for (float cap : {0.5f, 50.0f}) {
    std::vector<float> values;
    for (int i = -800; i < 800; ++i) values.push_back(cap * static_cast<float>(i) / 100);
    values.push_back(1e30f);
    values.push_back(-1e30f);
    const std::vector<float> before = values;
    values = Padded(values);
    soft_cap_(values.data(), static_cast<int64_t>(values.size()), cap);
    for (size_t i = 0; i < before.size(); ++i) {
      const double expected = cap * std::tanh(static_cast<double>(before[i]) / cap);
      ASSERT_NEAR(values[i], expected, 4e-7 * std::fabs(expected) + 1e-12) << before[i];
    }
  }
  std::vector<float> nan(kLanes, std::numeric_limits<float>::quiet_NaN());
  soft_cap_(nan.data(), kLanes, 30);
  EXPECT_TRUE(std::isnan(nan[0]));
}

INSTANTIATE_TEST_SUITE_P(Versions, SoftmaxRowTest, ::testing::Range(0, 3));

}  // namespace
}  // namespace headcount::engine
