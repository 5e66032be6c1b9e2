// Decisions on made-up measurements: sides, strictness, ties, NaN, layers, and rows of different
// rules side by side.

#include "worker/engine/intervene/decider.h"

#include <numeric>

#include <limits>

#include "ATen/ops/arange.h"
#include "ATen/ops/from_blob.h"
#include "common/catalog/scores.h"
#include "engine_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/intervene/philox.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int> ToInts(const at::Tensor& mask) {
  const at::Tensor bytes = mask.to(at::kInt).contiguous();
  return {bytes.const_data_ptr<int>(), bytes.const_data_ptr<int>() + bytes.numel()};
}

class DeciderTest : public ::testing::Test {
 protected:
  DeciderTest() {
    config_.layers = 3;
    config_.heads = 4;
    config_.kv_heads = 2;
  }

  // Every row sees the same four values as its measurement `m`.
  Decision Decide(catalog::Measurement m, std::vector<float> values, std::vector<Rule> rules,
                  int layer = 1) {
    std::vector<Row> rows(rules.size());
    std::vector<const Row*> pointers;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].rule = static_cast<int>(i);
      rows[i].random_key = 77;
      pointers.push_back(&rows[i]);
    }
    MeasurementTensors measurements;
    const auto count = static_cast<int64_t>(rows.size());
    measurements[static_cast<size_t>(m)] =
        at::from_blob(values.data(), {1, 4}, at::kFloat).expand({count, 4}).clone();
    const Decider decider(config_, rules, pointers, c10::Device(c10::DeviceType::CPU));
    std::vector<int> all(rows.size());
    std::iota(all.begin(), all.end(), 0);
    needed_ = decider.Measurements(layer, all);
    return decider.Decide(layer, measurements, all, at::arange(count));
  }

  static Rule TopK(const std::string& score, int k) {
    Rule rule;
    rule.select = Rule::Select::kTopK;
    rule.score = &ScoreOrDie(score);
    rule.top_k = k;
    return rule;
  }

  catalog::ModelConfig config_;
  unsigned needed_ = 0;
};

TEST_F(DeciderTest, RowsThatAreNotThereNeedNothing) {
  const Rule rules[] = {ThresholdRule("output_norm", 2), ThresholdRule("entropy", 1), Rule{}};
  const Row rows[] = {{.rule = 0}, {.rule = 1}, {.rule = 2}};
  const Row* const pointers[] = {&rows[0], &rows[1], &rows[2]};
  const Decider decider(config_, rules, pointers, c10::Device(c10::DeviceType::CPU));
  const int present[] = {2, 0};  // in any order
  MeasurementTensors measurements;
  std::vector<float> values = {1, 2, 3, 4, 1, 1, 3, 4};
  measurements[static_cast<size_t>(catalog::Measurement::kOutput)] =
      at::from_blob(values.data(), {2, 4}, at::kFloat);
  std::vector<int64_t> ids = {2, 0};
  const Decision decision =
      decider.Decide(1, measurements, present, at::from_blob(ids.data(), {2}, at::kLong));
  EXPECT_EQ(decider.Measurements(1, present),
            1u << static_cast<int>(catalog::Measurement::kOutput));
  EXPECT_THAT(ToInts(decision.mask), ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_EQ(decider.Measurements(1, std::span(present).first(1)), 0u);
}

TEST_F(DeciderTest, ComparisonsAreStrictAndSidesAreTheScores) {
  EXPECT_THAT(
      ToInts(Decide(catalog::Measurement::kOutput, {1, 2, 3, 4}, {ThresholdRule("output_norm", 2)})
                 .mask),
      ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(needed_, 1u << static_cast<int>(catalog::Measurement::kOutput));
  EXPECT_THAT(ToInts(Decide(catalog::Measurement::kFirstWeight, {.1f, .5f, .7f, .5f},
                            {ThresholdRule("Dormant", .5f)})
                         .mask),
              ElementsAre(0, 0, 1, 0));
}

TEST_F(DeciderTest, NanIsNeverInactiveAndIsReported) {
  const Decision decision = Decide(catalog::Measurement::kEntropy, {kNan, 0, kNan, 9},
                                   {ThresholdRule("entropy", 1), TopK("entropy", 4), Rule{}});
  EXPECT_THAT(ToInts(decision.mask), ElementsAre(0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0));
  EXPECT_THAT(ToInts(decision.not_finite), ElementsAre(1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0));
}

TEST_F(DeciderTest, TopKTakesTheMostInactiveAndTiesGoToTheLowerHead) {
  EXPECT_THAT(
      ToInts(Decide(catalog::Measurement::kOutput, {2, 1, 2, 2}, {TopK("output_norm", 2)}).mask),
      ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(ToInts(Decide(catalog::Measurement::kFirstWeight, {.2f, .9f, .9f, .9f},
                            {TopK("first_token_weight", 2)})
                         .mask),
              ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(ToInts(Decide(catalog::Measurement::kOutput, {3, 1, 2, 4},
                            {TopK("output_norm", 0), TopK("output_norm", 3)})
                         .mask),
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 0));
}

TEST_F(DeciderTest, FixedHeadsAndRandomDrawsFollowTheirLayers) {
  Rule fixed = FixedRule({{1, 3}, {2, 0}});
  Rule random;
  random.select = Rule::Select::kRandom;
  random.probability = 0.5;
  const Decision decision = Decide(catalog::Measurement::kOutput, {1, 1, 1, 1}, {fixed, random});
  std::vector<int> expected = {0, 0, 0, 1};
  for (int head = 0; head < 4; ++head) expected.push_back(RandomDraw(77, 1, head) < 0.5 ? 1 : 0);
  EXPECT_EQ(ToInts(decision.mask), expected);
  EXPECT_EQ(needed_, 0u);
  fixed.layers = {1, 0, 1};
  EXPECT_FALSE(Decide(catalog::Measurement::kOutput, {1, 1, 1, 1}, {fixed}).mask.defined());
  EXPECT_THAT(ToInts(Decide(catalog::Measurement::kOutput, {1, 1, 1, 1}, {fixed}, 2).mask),
              ElementsAre(1, 0, 0, 0));
}

TEST_F(DeciderTest, NothingIsMeasuredForALayerWithoutRules) {
  Rule rule = ThresholdRule("output_norm", 2);
  rule.layers = {0, 0, 1};
  EXPECT_FALSE(Decide(catalog::Measurement::kOutput, {1, 2, 3, 4}, {rule, Rule{}}).mask.defined());
  EXPECT_EQ(needed_, 0u);
  // A neighbour that does act in the layer does not make this one act.
  EXPECT_THAT(ToInts(Decide(catalog::Measurement::kOutput, {1, 2, 3, 4},
                            {rule, ThresholdRule("output_norm", 3)})
                         .mask),
              ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
}

}  // namespace
}  // namespace headcount::engine
