// What is shared is shared exactly: twelve questions after one prefix, under rules of every kind,
// give the same results with every optimisation on and with each of them off.

#include <cmath>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr size_t kQuestions = 12;
constexpr size_t kPrefix = 90;

struct Switches {
  std::string name;
  EngineOptions options;
};

std::vector<Switches> Matrix() {
  std::vector<Switches> out;
  for (bool prefixes : {true, false}) {
    for (bool rules : {true, false}) {
      for (AttentionKernel kernel :
           {AttentionKernel::kBest, AttentionKernel::kFlash, AttentionKernel::kDense}) {
        for (int64_t budget : {4096, 300, 1}) {
          if (prefixes && rules && kernel == AttentionKernel::kBest && budget == 4096)
            continue;  // what it is compared with
          out.push_back({std::string(prefixes ? "prefixes" : "noprefixes") +
                             (rules ? "_rules" : "_norules") + "_kernel" +
                             std::to_string(static_cast<int>(kernel)) + "_" +
                             std::to_string(budget),
                         {.max_batch_tokens = budget,
                          .attention = kernel,
                          .sharing = {.prefixes = prefixes, .rules = rules}}});
        }
      }
    }
  }
  return out;
}

class SharingTest : public ::testing::TestWithParam<std::string> {
 protected:
  SharingTest() {
    // The prefix and the questions are cut from the longest prompt of the golden set.
    const std::vector<int32_t> text = TinyPrompts(GetParam()).back();
    for (size_t q = 0; q < kQuestions; ++q) {
      std::vector<int32_t> question(text.begin(), text.begin() + kPrefix);
      for (size_t i = 0; i < 5 + q; ++i)
        question.push_back(text[(kPrefix + 17 * q + i) % text.size()]);
      questions_.push_back(std::move(question));
    }
    const Rule random = RandomRule(0.3), fixed = FixedRule({{0, 1}, {1, 0}});
    const Rule top = TopKRule("entropy", 1);
    Rule upper = ThresholdRule("first_token_weight", 0.02f);
    upper.layers.assign(static_cast<size_t>(LoadOrDie(TinyModel(GetParam()))->config().layers), 1);
    upper.layers[0] = 0;
    Rule groups = ThresholdRule("output_norm_ln", 0.9f);
    groups.unit = HeadUnit::kKvGroup;
    Rule drawn;  // as many at random as two rules have together
    drawn.select = Rule::Select::kCombined;
    drawn.parts = {ThresholdRule("output_norm_ln", 0.7f), top};
    using Op = CombineStep::Op;
    drawn.steps = {{Op::kPart, 0}, {Op::kPart, 1}, {Op::kOr}, {Op::kRandomInLayer, 0, 3}};
    unit_ = MakeUnit(
        questions_,
        {Rule{}, ThresholdRule("output_norm_ln", 0.8f), ThresholdRule("output_norm_ln", 0.5f),
         ThresholdRule("entropy", 3.2f), top, upper, random, fixed,
         // The same heads, but another history.
         groups, drawn, ToMean(top, SomeMeans(LoadOrDie(TinyModel(GetParam()))->config())),
         Scaled(fixed, 0.5f), ToFirstValue(ThresholdRule("output_norm_ln", 0.8f))},
        false);
    for (size_t i = 0; i < unit_.rows.size(); ++i) {
      unit_.rows[i].targets = kTargets;
      unit_.rows[i].scored = 1;
      unit_.rows[i].sample = SampleName(i % kQuestions);
    }
  }

  static void ExpectSame(const UnitResult& actual, const UnitResult& expected) {
    ASSERT_EQ(actual.rows.size(), expected.rows.size());
    EXPECT_EQ(actual.tokens, expected.tokens);
    for (size_t i = 0; i < actual.rows.size(); ++i) {
      SCOPED_TRACE("row " + std::to_string(i));
      const RowResult &a = actual.rows[i], &b = expected.rows[i];
      EXPECT_EQ(a.mask, b.mask);
      EXPECT_EQ(a.greedy, b.greedy);
      ASSERT_EQ(a.measurements.size(), b.measurements.size());
      const size_t slab = a.measurements.size() / catalog::kMeasurementCount;
      for (size_t j = 0; j < a.measurements.size(); ++j) {
        if (std::isnan(a.measurements[j]) && std::isnan(b.measurements[j])) continue;
        const bool entropy = j / slab == static_cast<size_t>(catalog::Measurement::kEntropy);
        const float bound = std::max(entropy ? 1e-5f : 2e-6f, 2e-5f * std::fabs(b.measurements[j]));
        ASSERT_NEAR(a.measurements[j], b.measurements[j], bound) << "place " << j;
      }
      for (size_t c = 0; c < a.log_likelihoods.size(); ++c) {
        ASSERT_NEAR(a.log_likelihoods[c], b.log_likelihoods[c], 1e-4);
      }
    }
  }

  static constexpr int32_t kTargets[] = {7, 11, 300, 511};
  std::vector<std::vector<int32_t>> questions_;
  Unit unit_;
};

TEST_P(SharingTest, EveryOptimisationOffGivesTheSame) {
  for (bool measurements : {false, true}) {
    unit_.record.measurements = measurements;
    const UnitResult shared = RunOrDie(*LoadOrDie(TinyModel(GetParam())), unit_);
    for (const Switches& switches : Matrix()) {
      SCOPED_TRACE(switches.name);
      const auto engine = LoadOrDie(TinyModel(GetParam()), DType::kFloat32, switches.options);
      ExpectSame(RunOrDie(*engine, unit_), shared);
    }
  }
}

TEST_P(SharingTest, OneHistoryIsComputedOnce) {
  unit_.rows.resize(kQuestions);  // the baseline alone
  const auto engine = LoadOrDie(TinyModel(GetParam()));
  const UnitResult result = RunOrDie(*engine, unit_);
  int64_t own = 0;
  for (const auto& question : questions_) own += static_cast<int64_t>(question.size() - kPrefix);
  EXPECT_EQ(result.computed_tokens, static_cast<int64_t>(kPrefix) + own);
  EXPECT_EQ(result.tokens, static_cast<int64_t>(kPrefix * kQuestions) + own);
  // Rules that zero nothing go with the baseline.
  Unit twice = unit_;
  twice.rules.push_back(ThresholdRule("output_norm", 0));
  for (size_t i = 0; i < kQuestions; ++i) {
    twice.rows.push_back(unit_.rows[i]);
    twice.rows.back().rule = static_cast<int>(twice.rules.size()) - 1;
  }
  EXPECT_EQ(RunOrDie(*engine, twice).computed_tokens, result.computed_tokens);
  // Without sharing everything is computed.
  const auto off = LoadOrDie(TinyModel(GetParam()), DType::kFloat32,
                             {.sharing = {.prefixes = false, .rules = false}});
  EXPECT_EQ(RunOrDie(*off, unit_).computed_tokens, result.tokens);
}

TEST_P(SharingTest, HistoriesGoApartFromTheLayerInWhichTheyPart) {
  const auto engine = LoadOrDie(TinyModel(GetParam()));
  Unit two = unit_;  // the baseline, and a head lost in layer 0
  two.rows.assign(unit_.rows.begin(), unit_.rows.begin() + kQuestions);
  const int64_t once = RunOrDie(*engine, two).computed_tokens;
  two.rules.push_back(FixedRule({{0, 2}}));
  for (size_t i = 0; i < kQuestions; ++i) {
    two.rows.push_back(unit_.rows[i]);
    two.rows.back().rule = static_cast<int>(two.rules.size()) - 1;
  }
  const int64_t layers = engine->config().layers;
  EXPECT_EQ(RunOrDie(*engine, two).computed_tokens,
            (once * (1 + 2 * (layers - 1)) + layers - 1) / layers);
}

TEST_P(SharingTest, WhatBecomesOfAHeadIsPartOfTheHistory) {
  const auto engine = LoadOrDie(TinyModel(GetParam()));
  const auto run = [&](std::vector<Rule> rules) {
    Unit unit = MakeUnit({questions_[0]}, std::move(rules), false);
    for (Row& row : unit.rows) row.targets = kTargets, row.scored = 1;
    return RunOrDie(*engine, unit);
  };
  const Rule lost = FixedRule({{0, 2}});
  const int64_t layers = engine->config().layers;
  const auto length = static_cast<int64_t>(questions_[0].size());
  const UnitResult apart = run({lost, Scaled(lost, 0.5f), ToFirstValue(lost)});
  EXPECT_EQ(apart.computed_tokens, (length * (1 + 3 * (layers - 1)) + layers - 1) / layers);
  EXPECT_EQ(apart.rows[0].mask, apart.rows[1].mask);
  EXPECT_NE(apart.rows[0].log_likelihoods, apart.rows[1].log_likelihoods);
  EXPECT_NE(apart.rows[0].log_likelihoods, apart.rows[2].log_likelihoods);
  // A scale of 0 is zero, and shares with it.
  const UnitResult same = run({lost, Scaled(lost, 0)});
  EXPECT_EQ(same.computed_tokens, length);
  EXPECT_EQ(same.rows[0].log_likelihoods, same.rows[1].log_likelihoods);
}

TEST_P(SharingTest, SumsOfHeadOutputsCountATrunkForEachRow) {
  unit_.rows.resize(kQuestions);
  unit_.record.head_sums = true;
  const auto engine = LoadOrDie(TinyModel(GetParam()));
  const auto off = LoadOrDie(TinyModel(GetParam()), DType::kFloat32,
                             {.sharing = {.prefixes = false, .rules = false}});
  const HeadSums a = *RunOrDie(*engine, unit_).head_sums, b = *RunOrDie(*off, unit_).head_sums;
  EXPECT_EQ(a.rest_count, b.rest_count);
  EXPECT_EQ(a.first_count, b.first_count);
  for (size_t i = 0; i < a.rest.size(); ++i) {
    ASSERT_NEAR(a.rest[i], b.rest[i], 1e-3 + 1e-5 * std::fabs(b.rest[i]));
    ASSERT_NEAR(a.first[i], b.first[i], 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SharingTest, ::testing::ValuesIn(kMechanismModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
