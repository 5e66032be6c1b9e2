// The two evaluators of score formulas, over floats and over tensors, agree on every score and
// every operation.

#include "worker/engine/intervene/score_program.h"

#include <cmath>
#include <limits>
#include <random>

#include "ATen/ops/from_blob.h"
#include "common/catalog/scores.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr int kRows = 5;  // stand for layers on the side of the float evaluator
constexpr int kHeads = 7;

class BothEvaluators : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> positive(0.01f, 3);
    for (auto& values : values_) {
      for (float& value : values) value = positive(random);
      std::fill_n(values.begin(), kHeads, 0.0f);  // a layer of zeros: the ratio rule
      values[static_cast<size_t>(kHeads) + 2] = std::numeric_limits<float>::quiet_NaN();
      values[2 * kHeads + 3] = std::numeric_limits<float>::infinity();
    }
  }

  void ExpectSame(const catalog::Expression& expression) {
    const float* pointers[catalog::kMeasurementCount];
    MeasurementTensors tensors;
    for (size_t m = 0; m < catalog::kMeasurementCount; ++m) {
      pointers[m] = values_[m].data();
      tensors[m] = at::from_blob(values_[m].data(), {kRows, kHeads}, at::kFloat);
    }
    std::vector<float> floats(kRows * kHeads);
    expression.EvaluateLayers(pointers, kRows, kHeads, floats);
    const at::Tensor result = EvaluateScore(expression, tensors).contiguous();
    ASSERT_EQ(result.numel(), kRows * kHeads) << expression.text();
    for (size_t i = 0; i < floats.size(); ++i) {
      const float value = result.const_data_ptr<float>()[i];
      if (std::isnan(floats[i]) || std::isinf(floats[i])) {
        EXPECT_EQ(std::isnan(value), std::isnan(floats[i])) << expression.text() << " " << i;
        EXPECT_EQ(std::isinf(value), std::isinf(floats[i])) << expression.text() << " " << i;
      } else {
        EXPECT_NEAR(value, floats[i], 1e-6f * (1 + std::fabs(floats[i]))) << expression.text();
      }
    }
  }

  std::array<std::vector<float>, catalog::kMeasurementCount> values_ = [] {
    std::array<std::vector<float>, catalog::kMeasurementCount> values;
    values.fill(std::vector<float>(kRows * kHeads));
    return values;
  }();
};

TEST_F(BothEvaluators, AgreeOnAllScores) {
  int scores = 0;
  for (const catalog::Score& score : catalog::Scores()) {
    if (score.is_random()) continue;
    ExpectSame(score.expression);
    ++scores;
  }
  EXPECT_EQ(scores, 15);
}

TEST_F(BothEvaluators, AgreeOnAllOperations) {
  for (const char* text :
       {"1 + 2 * 3 - entropy", "-output / value", "min(entropy, 1) - max(output, value)",
        "abs(log(entropy)) + sqrt(output)", "layer_mean(layer_mean(output)) / layer_mean(value)",
        "2 / layer_mean(entropy)", "entropy / layer_mean(0)", "layer_mean(2) * 3", "4"}) {
    const auto expression = catalog::Expression::Parse(text);
    ASSERT_TRUE(expression.ok()) << expression.status();
    ExpectSame(*expression);
  }
}

}  // namespace
}  // namespace headcount::engine
