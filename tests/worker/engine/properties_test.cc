// What must hold whatever the numbers are: batches, permutations, rules that change nothing,
// log-likelihoods, sums.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

// Semantics section 8: the same sample in another batch; entropies 1e-5, the rest 2e-5 relative or
// 2e-6 absolute.
// NaN, where a window hides the first token, is equal to itself here.
std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectSameMeasurements(const RowResult& a, const RowResult& b) {
  ASSERT_EQ(a.measurements.size(), b.measurements.size());
  const size_t slab = a.measurements.size() / catalog::kMeasurementCount;
  for (size_t i = 0; i < a.measurements.size(); ++i) {
    if (std::isnan(a.measurements[i]) && std::isnan(b.measurements[i])) continue;
    const bool entropy = i / slab == static_cast<size_t>(catalog::Measurement::kEntropy);
    const float bound = std::max(entropy ? 1e-5f : 2e-6f, 2e-5f * std::fabs(b.measurements[i]));
    ASSERT_NEAR(a.measurements[i], b.measurements[i], bound) << "place " << i;
  }
}

class Properties : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    prompts_ = TinyPrompts(GetParam());
    engine_ = LoadOrDie(TinyModel(GetParam()));
  }

  // The prompts under rules of every kind, measured, with the last token scored against four
  // candidates.
  Unit EveryKind() {
    Unit unit = MakeUnit(prompts_,
                         {Rule{}, ThresholdRule("output_norm_ln", 0.8f), TopKRule("entropy", 1),
                          RandomRule(0.3), FixedRule({{0, 1}, {1, 0}})},
                         true);
    for (size_t i = 0; i < unit.rows.size(); ++i) {
      unit.rows[i].targets = kTargets;
      unit.rows[i].scored = 1;
      unit.rows[i].sample = SampleName(i);
    }
    return unit;
  }

  static constexpr int32_t kTargets[] = {7, 11, 300, 511};
  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(Properties, ARowAloneAndInABatchIsTheSame) {
  const Unit unit = EveryKind();
  const UnitResult together = RunOrDie(*engine_, unit);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    SCOPED_TRACE(i);
    Unit alone = unit;
    alone.rows = {unit.rows[i]};
    const UnitResult result = RunOrDie(*engine_, alone);
    ExpectSameMeasurements(result.rows[0], together.rows[i]);
    EXPECT_EQ(result.rows[0].mask, together.rows[i].mask);
    for (size_t c = 0; c < 4; ++c) {
      EXPECT_NEAR(result.rows[0].log_likelihoods[c], together.rows[i].log_likelihoods[c], 1e-4);
    }
  }
}

TEST_P(Properties, ASmallerTokenBudgetGivesTheSame) {
  const Unit unit = EveryKind();
  const UnitResult large = RunOrDie(*engine_, unit);
  auto small_engine = LoadOrDie(TinyModel(GetParam()), DType::kFloat32, {.max_batch_tokens = 50});
  const UnitResult small = RunOrDie(*small_engine, unit);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    ExpectSameMeasurements(small.rows[i], large.rows[i]);
    EXPECT_EQ(small.rows[i].mask, large.rows[i].mask);
  }
  EXPECT_EQ(small.tokens, large.tokens);
  EXPECT_EQ(small.tokens, 5 * (2 + 5 + 17 + 40 + 127 + 300));
  EXPECT_LE(large.computed_tokens, small.computed_tokens);
  EXPECT_LE(small.computed_tokens, small.tokens);
  EXPECT_EQ(small.oom_backoffs, 0);
}

TEST_P(Properties, APermutationOfTheRowsPermutesTheResults) {
  const Unit unit = EveryKind();
  std::vector<size_t> order(unit.rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::reverse(order.begin(), order.end());
  std::swap(order[3], order[11]);
  Unit permuted = unit;
  for (size_t i = 0; i < order.size(); ++i) permuted.rows[i] = unit.rows[order[i]];
  const UnitResult expected = RunOrDie(*engine_, unit);
  const UnitResult actual = RunOrDie(*engine_, permuted);
  for (size_t i = 0; i < order.size(); ++i) {
    ExpectSameMeasurements(actual.rows[i], expected.rows[order[i]]);
    EXPECT_EQ(actual.rows[i].mask, expected.rows[order[i]].mask);
  }
}

TEST_P(Properties, APrefixIsOnlyAWayToWriteTheTokens) {
  const std::vector<int32_t>& prompt = prompts_[4];
  Unit whole = MakeUnit({prompt}, {ThresholdRule("entropy_ln", 0.9f)}, true);
  whole.rows[0].targets = kTargets;
  whole.rows[0].scored = 1;
  Unit split = whole;
  split.prefix = std::span(prompt).first(100);
  split.rows[0].suffix = std::span(prompt).subspan(100);
  const UnitResult a = RunOrDie(*engine_, whole), b = RunOrDie(*engine_, split);
  EXPECT_EQ(Bits(a.rows[0].measurements), Bits(b.rows[0].measurements));
  EXPECT_EQ(a.rows[0].mask, b.rows[0].mask);
  EXPECT_EQ(a.rows[0].log_likelihoods, b.rows[0].log_likelihoods);
  EXPECT_EQ(a.tokens, b.tokens);
}

TEST_P(Properties, RepeatingGivesTheSameBytes) {
  const UnitResult a = RunOrDie(*engine_, EveryKind()), b = RunOrDie(*engine_, EveryKind());
  for (size_t i = 0; i < a.rows.size(); ++i) {
    EXPECT_EQ(Bits(a.rows[i].measurements), Bits(b.rows[i].measurements));
    EXPECT_EQ(a.rows[i].log_likelihoods, b.rows[i].log_likelihoods);
    EXPECT_EQ(a.rows[i].mask, b.rows[i].mask);
  }
}

TEST_P(Properties, RulesThatSelectNothingChangeNothing) {
  Rule nowhere = ThresholdRule("output_norm", 1e9f);  // every head is below, in no layer
  nowhere.layers.assign(static_cast<size_t>(engine_->config().layers), 0);
  const std::vector<Rule> rules = {Rule{},
                                   ThresholdRule("output_norm", 0),  // no norm is below 0
                                   ThresholdRule("first_token_weight", 1),
                                   TopKRule("entropy", 0),
                                   RandomRule(0),
                                   FixedRule({}),
                                   nowhere};
  Unit unit = MakeUnit({prompts_[3]}, rules, true);
  for (Row& row : unit.rows) {
    row.targets = kTargets;
    row.scored = 1;
  }
  const UnitResult result = RunOrDie(*engine_, unit);
  for (size_t i = 0; i < rules.size(); ++i) {
    EXPECT_THAT(result.rows[i].mask, Each(0)) << i;
    ExpectSameMeasurements(result.rows[i], result.rows[0]);
    for (size_t c = 0; c < 4; ++c) {
      EXPECT_NEAR(result.rows[i].log_likelihoods[c], result.rows[0].log_likelihoods[c], 1e-5);
    }
  }
}

TEST_P(Properties, LayersLeftOutKeepTheirHeads) {
  const auto& config = engine_->config();
  Rule rule = TopKRule("output_norm", config.heads);
  rule.layers.assign(static_cast<size_t>(config.layers), 1);
  rule.layers[0] = 0;
  Rule random = RandomRule(1);
  random.layers = rule.layers;
  const UnitResult result = RunOrDie(*engine_, MakeUnit({prompts_[2]}, {rule, random}, false));
  for (const RowResult& row : result.rows) {
    const std::vector<float> mask = MaskOf(row, config);
    const auto heads = static_cast<std::ptrdiff_t>(config.heads);
    EXPECT_THAT(std::vector<float>(mask.begin(), mask.begin() + heads), Each(0));
    EXPECT_THAT(std::vector<float>(mask.begin() + heads, mask.end()), Each(1));
  }
}

TEST_P(Properties, QueryHeadsOfAGroupShareValueNorms) {
  const auto& config = engine_->config();
  const UnitResult result = RunOrDie(*engine_, MakeUnit({prompts_[3]}, {Rule{}}, true));
  const size_t slab = static_cast<size_t>(config.layers * config.heads);
  for (const auto& info : catalog::kMeasurements) {
    if (!info.per_kv_head) continue;
    const float* values =
        result.rows[0].measurements.data() + static_cast<size_t>(info.measurement) * slab;
    for (int layer = 0; layer < config.layers; ++layer) {
      for (int head = 0; head < config.heads; ++head) {
        const int first = head / config.group_size() * config.group_size();
        EXPECT_EQ(values[layer * config.heads + head], values[layer * config.heads + first]);
      }
    }
  }
}

TEST_P(Properties, OneTokenHasEntropyZeroAndRatioOne) {
  const UnitResult result = RunOrDie(*engine_, MakeUnit({{5}}, {Rule{}}, true));
  EXPECT_TRUE(result.rows[0].finite);
  const auto& config = engine_->config();
  EXPECT_THAT(ScoresOf(result.rows[0], config, ScoreOrDie("entropy")), Each(0));
  EXPECT_THAT(ScoresOf(result.rows[0], config, ScoreOrDie("entropy_ln")), Each(1));
  EXPECT_THAT(ScoresOf(result.rows[0], config, ScoreOrDie("first_token_weight")), Each(1));
}

TEST_P(Properties, LogLikelihoodsAreLogSoftmaxOfTheLogits) {
  const std::vector<int32_t>& prompt = prompts_[3];
  // Two continuations of three tokens: the first two are the input's last two.
  const auto t = prompt.size();
  const std::vector<int32_t> targets = {prompt[t - 2], prompt[t - 1], 9,
                                        prompt[t - 2], prompt[t - 1], 200};
  Unit unit = MakeUnit({prompt}, {Rule{}}, false);
  unit.rows[0].targets = targets;
  unit.rows[0].scored = 3;
  const UnitResult result = RunOrDie(*engine_, unit);
  const auto logits = engine_->Logits(prompt, Rule{}, 3);
  ASSERT_TRUE(logits.ok());
  const auto vocabulary = static_cast<size_t>(engine_->config().vocab_size);
  for (size_t c = 0; c < 2; ++c) {
    double sum = 0;
    bool greedy = true;
    for (size_t j = 0; j < 3; ++j) {
      const float* row = logits->data() + j * vocabulary;
      double total = 0;
      for (size_t i = 0; i < vocabulary; ++i) total += std::exp(static_cast<double>(row[i]));
      const auto target = static_cast<size_t>(targets[c * 3 + j]);
      sum += row[target] - std::log(total);
      greedy &= std::max_element(row, row + vocabulary) == row + target;
    }
    EXPECT_NEAR(result.rows[0].log_likelihoods[c], sum, 1e-4);
    EXPECT_EQ(result.rows[0].greedy[c], greedy ? 1 : 0);
  }
  // The argmax of the last position is greedy by definition.
  const float* last = logits->data() + 2 * vocabulary;
  const std::vector<int32_t> best = {
      static_cast<int32_t>(std::max_element(last, last + vocabulary) - last)};
  unit.rows[0].targets = best;
  unit.rows[0].scored = 1;
  EXPECT_EQ(RunOrDie(*engine_, unit).rows[0].greedy, std::vector<uint8_t>{1});
}

TEST_P(Properties, ThePlainPassGivesTheSameLogLikelihoods) {
  Unit unit = MakeUnit(prompts_, {Rule{}}, true);
  for (Row& row : unit.rows) {
    row.targets = kTargets;
    row.scored = 1;
  }
  const CancelFlag cancel = false;
  const auto plain = engine_->RunPlain(unit, cancel);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const UnitResult recorded = RunOrDie(*engine_, unit);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    EXPECT_EQ(plain->rows[i].log_likelihoods, recorded.rows[i].log_likelihoods);
    EXPECT_TRUE(plain->rows[i].measurements.empty());
  }
  unit.rules[0] = RandomRule(0.5);
  EXPECT_EQ(engine_->RunPlain(unit, cancel).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(Properties, HeadSumsAddUpOverRowsAndBatches) {
  Unit unit = MakeUnit(prompts_, {Rule{}}, false);
  unit.record.head_sums = true;
  const UnitResult all = RunOrDie(*engine_, unit);
  ASSERT_TRUE(all.head_sums.has_value());
  const auto& config = engine_->config();
  const size_t size = static_cast<size_t>(config.layers * config.heads * config.head_dim);
  std::vector<float> rest(size), first(size);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    Unit alone = unit;
    alone.rows = {unit.rows[i]};
    const UnitResult one = RunOrDie(*engine_, alone);
    EXPECT_EQ(one.head_sums->first_count, 1);
    EXPECT_EQ(one.head_sums->rest_count, static_cast<int64_t>(prompts_[i].size()) - 1);
    for (size_t j = 0; j < size; ++j) {
      rest[j] += one.head_sums->rest[j];
      first[j] += one.head_sums->first[j];
    }
  }
  EXPECT_EQ(all.head_sums->first_count, 6);
  EXPECT_EQ(all.head_sums->rest_count, 1 + 4 + 16 + 39 + 126 + 299);
  ASSERT_EQ(all.head_sums->rest.size(), size);
  for (size_t j = 0; j < size; ++j) {
    EXPECT_NEAR(all.head_sums->rest[j], rest[j], 1e-3);
    EXPECT_NEAR(all.head_sums->first[j], first[j], 1e-4);
  }
  // At position 0 a head sees its own value alone, so for one row |z_0| is first_value.
  Unit alone = MakeUnit({prompts_[3]}, {Rule{}}, true);
  alone.record.head_sums = true;
  const UnitResult one = RunOrDie(*engine_, alone);
  const std::vector<float> norms = ScoresOf(one.rows[0], config, ScoreOrDie("first_value_norm"));
  for (size_t head = 0; head < norms.size(); ++head) {
    const auto begin =
        one.head_sums->first.begin() + static_cast<std::ptrdiff_t>(head) * config.head_dim;
    const double square = std::inner_product(begin, begin + config.head_dim, begin, 0.0);
    EXPECT_NEAR(std::sqrt(square), norms[head], 1e-4 * norms[head] + 1e-6);
  }
}

TEST_P(Properties, BFloat16StaysNearFloat32) {
  auto half = LoadOrDie(TinyModel(GetParam()), DType::kBFloat16);
  EXPECT_LT(half->weight_bytes(), engine_->weight_bytes());
  const Unit unit = MakeUnit(prompts_, {Rule{}}, true);
  const UnitResult a = RunOrDie(*engine_, unit), b = RunOrDie(*half, unit);
  double worst = 0;
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    EXPECT_TRUE(b.rows[i].finite);
    for (size_t j = 0; j < a.rows[i].measurements.size(); ++j) {
      const double x = a.rows[i].measurements[j], y = b.rows[i].measurements[j];
      worst = std::max(worst, std::fabs(x - y) / (1 + std::fabs(x)));
    }
  }
  EXPECT_GT(worst, 1e-6);  // it is another arithmetic
  EXPECT_LT(worst, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Families, Properties, ::testing::ValuesIn(kTinyModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
