// Decisions on made-up measurements: sides, strictness, ties, NaN, layers, and rows of different
// rules side by side.

#include "worker/engine/intervene/decider.h"

#include <numeric>

#include <algorithm>
#include <limits>
#include <set>

#include "ATen/ops/arange.h"
#include "ATen/ops/from_blob.h"
#include "common/base/digest.h"
#include "common/catalog/scores.h"
#include "engine_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/intervene/philox.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;

constexpr char kSample[] = "quiz/0/0";
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
      rows[i].sample = kSample;
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

TEST_F(DeciderTest, KvGroupsAreDecidedByTheMeanMostOrLeastOfTheirHeads) {
  const auto group = [](Rule rule, GroupScore score) {
    rule.unit = HeadUnit::kKvGroup;
    rule.group_score = score;
    return rule;
  };
  const auto decide = [&](const Rule& rule) {
    return ToInts(Decide(catalog::Measurement::kOutput, {1, 4, 2, 6}, {rule}).mask);
  };
  const Rule below3 = ThresholdRule("output_norm", 3);
  EXPECT_THAT(decide(group(below3, GroupScore::kMean)), ElementsAre(1, 1, 0, 0));  // 2.5 and 4
  EXPECT_THAT(decide(group(below3, GroupScore::kMin)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(decide(group(below3, GroupScore::kMax)), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(decide(group(TopK("output_norm", 1), GroupScore::kMean)), ElementsAre(1, 1, 0, 0));
  const Decision nan =
      Decide(catalog::Measurement::kOutput, {1, kNan, 2, 2}, {group(below3, GroupScore::kMin)});
  EXPECT_THAT(ToInts(nan.mask), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(ToInts(nan.not_finite), ElementsAre(1, 1, 0, 0));
  Rule random = group(RandomRule(0.5), GroupScore::kMean);
  const auto drawn = [](uint64_t seed, int kv_head) {
    return RandomDraw(RandomKey(seed, kSample), 1, kv_head) < 0.5;
  };
  while (drawn(random.seed, 0) || !drawn(random.seed, 1)) ++random.seed;
  EXPECT_THAT(decide(random), ElementsAre(0, 0, 1, 1));
}

TEST_F(DeciderTest, ALayerMayHaveAThresholdOfItsOwn) {
  Rule rule = ThresholdRule("output_norm", 9);
  rule.layer_thresholds = {0, 2, 4};
  for (int layer = 0; layer < 3; ++layer) {
    const Decision decision =
        Decide(catalog::Measurement::kOutput, {1, 2, 3, 5}, {rule, Rule{}}, layer);
    const auto lost = [&](float x) { return x < rule.layer_thresholds[size_t(layer)] ? 1 : 0; };
    EXPECT_THAT(ToInts(decision.mask), ElementsAre(lost(1), lost(2), lost(3), lost(5), 0, 0, 0, 0));
  }
}

// Parts 0 and 1 put together by steps.
Rule Combined(std::vector<Rule> parts, std::vector<CombineStep> steps) {
  Rule rule;
  rule.select = Rule::Select::kCombined;
  rule.parts = std::move(parts);
  rule.steps = std::move(steps);
  return rule;
}

TEST_F(DeciderTest, CombinedRulesPutMasksTogether) {
  using Op = CombineStep::Op;
  const Rule low = ThresholdRule("output_norm", 3), some = FixedRule({{1, 1}, {1, 3}, {2, 0}});
  const auto with = [&](Op op) {
    return Combined({low, some}, {{Op::kPart, 0}, {Op::kPart, 1}, {op}});
  };
  // Rows of simple rules stand between them.
  const Decision decision =
      Decide(catalog::Measurement::kOutput, {1, 2, 3, kNan},
             {with(Op::kAnd), low, with(Op::kOr), some, with(Op::kAndNot), Rule{}});
  EXPECT_THAT(ToInts(decision.mask),
              ElementsAre(0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ToInts(decision.not_finite), ElementsAre(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1,  //
                                                       0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0));
  EXPECT_EQ(needed_, 1u << static_cast<int>(catalog::Measurement::kOutput));
}

TEST_F(DeciderTest, ACombinedRuleActsInItsOwnLayersAlone) {
  using Op = CombineStep::Op;
  Rule part = ThresholdRule("output_norm", 3);
  part.layers = {1, 1, 0};
  Rule rule = Combined({part}, {{Op::kPart, 0}});
  rule.layers = {0, 1, 1};
  const auto decide = [&](int layer) {
    return Decide(catalog::Measurement::kOutput, {1, 2, 3, 4}, {rule}, layer).mask;
  };
  EXPECT_FALSE(decide(0).defined());
  EXPECT_THAT(ToInts(decide(1)), ElementsAre(1, 1, 0, 0));
  EXPECT_FALSE(decide(2).defined());
  EXPECT_EQ(needed_, 0u);
}

TEST_F(DeciderTest, RandomInLayerDrawsAsManyAsTheRuleHas) {
  using Op = CombineStep::Op;
  const auto as_many = [](float below, uint64_t seed, HeadUnit unit) {
    return Combined({ThresholdRule("output_norm", below)},
                    {{Op::kPart, 0}, {Op::kRandomInLayer, 0, seed, unit}});
  };
  // The heads by their draws, in layer 1.
  std::vector<int> order = {0, 1, 2, 3};
  std::sort(order.begin(), order.end(), [](int a, int b) {
    return RandomDraw(RandomKey(5, kSample), 1, a) < RandomDraw(RandomKey(5, kSample), 1, b);
  });
  const auto mask = [&](const Rule& rule) {
    return ToInts(Decide(catalog::Measurement::kOutput, {1, 2, 3, 4}, {Rule{}, rule}).mask);
  };
  for (int count = 0; count <= 4; ++count) {
    std::vector<int> expected(8);
    for (int i = 0; i < count; ++i) expected[static_cast<size_t>(4 + order[size_t(i)])] = 1;
    EXPECT_EQ(mask(as_many(static_cast<float>(count) + 0.5f, 5, HeadUnit::kQueryHead)), expected);
  }
  // Two heads of one group: one group, whole.
  const std::vector<int> group = mask(as_many(2.5f, 5, HeadUnit::kKvGroup));
  EXPECT_EQ(std::accumulate(group.begin(), group.end(), 0), 2);
  EXPECT_EQ(group[4], group[5]);
  EXPECT_EQ(group[6], group[7]);
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    seen.insert(mask(as_many(2.5f, seed, HeadUnit::kQueryHead)));
  }
  EXPECT_GT(seen.size(), 3u);
}

TEST_F(DeciderTest, FixedHeadsAndRandomDrawsFollowTheirLayers) {
  Rule fixed = FixedRule({{1, 3}, {2, 0}});
  Rule random;
  random.select = Rule::Select::kRandom;
  random.probability = 0.5;
  random.seed = 5;
  const Decision decision = Decide(catalog::Measurement::kOutput, {1, 1, 1, 1}, {fixed, random});
  std::vector<int> expected = {0, 0, 0, 1};
  for (int head = 0; head < 4; ++head)
    expected.push_back(RandomDraw(RandomKey(5, kSample), 1, head) < 0.5 ? 1 : 0);
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
