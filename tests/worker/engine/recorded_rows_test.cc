// What is kept of single rows: the distribution after the input and the attention to the first
// token by position. Each is held against another way to the same numbers: the logits of the whole
// sequence, and the mean that the measurement first_weight is.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine_testing.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

class RecordedRows : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    prompts_ = TinyPrompts(GetParam());
    engine_ = LoadOrDie(TinyModel(GetParam()));
    layers_ = static_cast<size_t>(engine_->config().layers);
    heads_ = static_cast<size_t>(engine_->config().heads);
  }

  // The prompts under a rule that changes nothing, a threshold and a fixed one; everything kept.
  Unit Everything() {
    Unit unit = MakeUnit(
        prompts_, {Rule{}, ThresholdRule("output_norm_ln", 0.8f), FixedRule({{0, 1}, {1, 0}})},
        true);
    for (size_t i = 0; i < unit.rows.size(); ++i) {
      unit.rows[i].sample = SampleName(i);
      unit.rows[i].next_token = unit.rows[i].first_weights = true;
    }
    return unit;
  }

  void ExpectFirstWeightsOf(const UnitResult& result, const Unit& unit) {
    for (size_t i = 0; i < unit.rows.size(); ++i) {
      SCOPED_TRACE(i);
      const RowResult& row = result.rows[i];
      const size_t length = unit.prefix.size() + unit.rows[i].suffix.size();
      ASSERT_EQ(row.first_weights.size(), layers_ * heads_ * length);
      const float* measured =
          row.measurements.data() +
          static_cast<size_t>(catalog::Measurement::kFirstWeight) * layers_ * heads_;
      for (size_t head = 0; head < layers_ * heads_; ++head) {
        const auto begin = row.first_weights.begin() + static_cast<std::ptrdiff_t>(head * length);
        EXPECT_NEAR(*begin, 1, 1e-6) << "the first token sees itself alone";
        // Of the positions that see the first token: in a layer with a window not all do, and where
        // most do not there is no measurement.
        const auto end = begin + static_cast<std::ptrdiff_t>(length);
        const auto seeing = std::count_if(begin, end, [](float weight) { return weight > 0; });
        if (2 * seeing < static_cast<std::ptrdiff_t>(length)) {
          EXPECT_TRUE(std::isnan(measured[head])) << "head " << head;
          continue;
        }
        const double mean = std::accumulate(begin, end, 0.0) / static_cast<double>(seeing);
        EXPECT_NEAR(mean, measured[head], 2e-6) << "head " << head;
      }
    }
  }

  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<Engine> engine_;
  size_t layers_ = 0, heads_ = 0;
};

TEST_P(RecordedRows, TheMeanOfFirstWeightsIsTheMeasurement) {
  const Unit unit = Everything();
  ExpectFirstWeightsOf(RunOrDie(*engine_, unit), unit);
}

TEST_P(RecordedRows, APrefixThatIsSharedIsPartOfEachRow) {
  Unit unit = Everything();
  const std::vector<int32_t> prefix(prompts_.back().begin(), prompts_.back().begin() + 40);
  unit.prefix = prefix;
  const UnitResult shared = RunOrDie(*engine_, unit);
  ExpectFirstWeightsOf(shared, unit);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    std::vector<int32_t> whole = prefix;
    whole.insert(whole.end(), unit.rows[i].suffix.begin(), unit.rows[i].suffix.end());
    Unit alone = unit;
    alone.prefix = {};
    alone.rows = {unit.rows[i]};
    alone.rows[0].suffix = whole;
    const RowResult row = RunOrDie(*engine_, alone).rows[0];
    ASSERT_EQ(row.first_weights.size(), shared.rows[i].first_weights.size());
    for (size_t k = 0; k < row.first_weights.size(); ++k) {
      ASSERT_NEAR(shared.rows[i].first_weights[k], row.first_weights[k], 5e-6) << i << ", " << k;
    }
    for (size_t t = 0; t < row.next_token.size(); ++t) {
      ASSERT_NEAR(shared.rows[i].next_token[t], row.next_token[t], 2e-4) << i << ", " << t;
    }
  }
}

TEST_P(RecordedRows, TheNextTokensAreTheLastLogits) {
  const Unit unit = Everything();
  const UnitResult result = RunOrDie(*engine_, unit);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    SCOPED_TRACE(i);
    const auto logits =
        engine_->Logits(unit.rows[i].suffix, unit.rules[static_cast<size_t>(unit.rows[i].rule)], 1);
    ASSERT_TRUE(logits.ok()) << logits.status();
    const std::vector<float>& next = result.rows[i].next_token;
    ASSERT_EQ(next.size(), logits->size());
    double total = 0;
    for (const float logit : *logits) total += std::exp(double{logit});
    double sum = 0;
    for (size_t t = 0; t < next.size(); ++t) {
      ASSERT_NEAR(next[t], (*logits)[t] - std::log(total), 1e-4) << "token " << t;
      sum += std::exp(double{next[t]});
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST_P(RecordedRows, WhatIsNotAskedForIsNotKeptAndRowsThatAskChangeNoOther) {
  Unit unit = Everything();
  static constexpr int32_t kTargets[] = {7, 11};
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    unit.rows[i].targets = kTargets;
    unit.rows[i].scored = 1;
    unit.rows[i].next_token = unit.rows[i].first_weights = i % 3 == 1;
  }
  const UnitResult some = RunOrDie(*engine_, unit);
  for (Row& row : unit.rows) row.next_token = row.first_weights = false;
  const UnitResult none = RunOrDie(*engine_, unit);
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    EXPECT_EQ(some.rows[i].next_token.empty(), i % 3 != 1);
    EXPECT_EQ(some.rows[i].first_weights.empty(), i % 3 != 1);
    EXPECT_EQ(some.rows[i].mask, none.rows[i].mask);
    for (size_t c = 0; c < 2; ++c) {
      EXPECT_NEAR(some.rows[i].log_likelihoods[c], none.rows[i].log_likelihoods[c], 1e-4);
    }
    if (i % 3 != 1) continue;
    for (size_t c = 0; c < 2; ++c) {
      EXPECT_NEAR(some.rows[i].next_token[static_cast<size_t>(kTargets[c])],
                  some.rows[i].log_likelihoods[c], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RecordedRows, ::testing::ValuesIn(kMechanismModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
