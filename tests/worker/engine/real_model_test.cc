// Sharing and generation on SmolLM2, where decisions fall in thirty layers: with HEADCOUNT_FULL=1,
// some minutes.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine_testing.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

class RealModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("HEADCOUNT_FULL") == nullptr) {
      GTEST_SKIP() << "sharing and generation on a real model: set HEADCOUNT_FULL=1";
    }
    model_ = RealModel("SmolLM2-135M-Instruct");
    if (model_.empty()) GTEST_SKIP() << "SmolLM2 has not been made: deploy/demo_model.py";
  }

  // Any text does; these are token ids that the vocabulary has.
  static std::vector<int32_t> Text(int tokens, int seed) {
    std::vector<int32_t> text;
    for (int i = 0; i < tokens; ++i) text.push_back(100 + (i * i * 7 + i * 13 + seed * 997) % 9000);
    return text;
  }

  // At 15 % of the heads (shared golden thresholds of the model's own prompts).
  static std::vector<Rule> Rules() {
    return {ThresholdRule("output_norm_ln", 0.7075509f),
            ThresholdRule("first_token_weight", 0.6654527f), ThresholdRule("entropy", 1.2572455f)};
  }

  std::string model_;
};

TEST_F(RealModelTest, TwelveQuestionsShareExactly) {
  const std::vector<int32_t> prefix = Text(200, 1);
  std::vector<std::vector<int32_t>> prompts;
  for (int q = 0; q < 12; ++q) {
    prompts.push_back(prefix);
    const std::vector<int32_t> question = Text(20 + q, 2 + q);
    prompts.back().insert(prompts.back().end(), question.begin(), question.end());
  }
  Unit unit = MakeUnit(prompts, Rules(), true);
  static const std::vector<int32_t> targets = {330, 378, 340, 422};
  for (Row& row : unit.rows) {
    row.targets = targets;
    row.scored = 1;
  }
  const UnitResult on = RunOrDie(*LoadOrDie(model_), unit);
  const UnitResult off = RunOrDie(*LoadOrDie(model_, DType::kFloat32,
                                             {.attention = AttentionKernel::kFlash,
                                              .sharing = {.prefixes = false, .rules = false}}),
                                  unit);
  EXPECT_LT(on.computed_tokens, off.computed_tokens / 2);
  int other_masks = 0;
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    // A score within 1e-4 of its threshold may fall on either side, and all that follows with it.
    if (on.rows[i].mask != off.rows[i].mask) {
      ++other_masks;
      continue;
    }
    const size_t slab = on.rows[i].measurements.size() / catalog::kMeasurementCount;
    for (size_t j = 0; j < on.rows[i].measurements.size(); ++j) {
      const float expected = off.rows[i].measurements[j];
      const bool entropy = j / slab == static_cast<size_t>(catalog::Measurement::kEntropy);
      ASSERT_NEAR(on.rows[i].measurements[j], expected,
                  std::max(entropy ? 1e-5f : 2e-6f, 2e-5f * std::fabs(expected)))
          << "row " << i << " place " << j;
    }
    for (size_t c = 0; c < 4; ++c) {
      ASSERT_NEAR(on.rows[i].log_likelihoods[c], off.rows[i].log_likelihoods[c], 1e-3);
    }
  }
  EXPECT_LE(other_masks, 2);
}

TEST_F(RealModelTest, GenerationEqualsComputingEveryStepAgain) {
  const auto engine = LoadOrDie(model_);
  const std::vector<int32_t> prompts[] = {Text(150, 3), Text(90, 4)};
  GenerateUnit unit;
  unit.rules = Rules();
  unit.max_new_tokens = 24;
  for (size_t rule = 0; rule < unit.rules.size(); ++rule) {
    for (const auto& prompt : prompts) {
      unit.rows.push_back({.prompt = prompt, .rule = static_cast<int>(rule)});
    }
  }
  const CancelFlag cancel = false;
  const auto cached = engine->Generate(unit, cancel, nullptr);
  ASSERT_TRUE(cached.ok()) << cached.status();
  const auto again = LoadOrDie(model_, DType::kFloat32, {.sharing = {.steps = false}})
                         ->Generate(unit, cancel, nullptr);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(cached->computed_tokens, again->computed_tokens / 3);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    EXPECT_EQ(cached->rows[i].tokens, again->rows[i].tokens) << "row " << i;
    EXPECT_EQ(cached->rows[i].masks, again->rows[i].masks) << "row " << i;
  }
}

}  // namespace
}  // namespace headcount::engine
