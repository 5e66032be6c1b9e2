// Generation with its caches equals computing the whole input at every step: the same tokens and
// the same masks, token by token, whatever goes side by side and however small the cache is.

#include <algorithm>
#include <set>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kNewTokens = 64;
constexpr size_t kPrompts = 5;

// The thresholds of three scores at two shares, from the golden values.
std::vector<Rule> GoldenRules(const std::string& model) {
  const auto golden = ReadGoldenJson(TinyModel(model) + "/golden.json");
  const auto shares = golden["shares"].get<std::vector<double>>();
  std::vector<Rule> rules;
  for (const std::string alias : {"Dormant", "Entropy", "HONOR"}) {
    for (double share : {.10, .30}) {
      const auto at = std::find(shares.begin(), shares.end(), share) - shares.begin();
      rules.push_back(ThresholdRule(
          alias, golden.at("thresholds").at(alias).at(static_cast<size_t>(at)).get<float>()));
    }
  }
  return rules;
}

GenerateResult GenerateOrDie(Engine& engine, const GenerateUnit& unit) {
  const CancelFlag cancel = false;
  auto result = engine.Generate(unit, cancel, nullptr);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

int32_t Argmax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class GenerateTest : public ::testing::TestWithParam<std::string> {
 protected:
  GenerateTest() : prompts_(TinyPrompts(GetParam())), engine_(Load({})) {
    prompts_.resize(kPrompts);
    unit_.rules = GoldenRules(GetParam());
    unit_.rules.push_back(ToFirstValue(unit_.rules[1]));
    unit_.rules.push_back(Scaled(unit_.rules[5], -0.5f));
    Rule both;
    both.select = Rule::Select::kCombined;
    both.parts = {unit_.rules[1], unit_.rules[5]};
    using Op = CombineStep::Op;
    both.steps = {{Op::kPart, 0}, {Op::kPart, 1}, {Op::kAndNot}};
    both.intervention = ToMean({}, SomeMeans(engine_->config())).intervention;
    unit_.rules.push_back(both);
    unit_.max_new_tokens = kNewTokens;
    for (size_t rule = 0; rule < unit_.rules.size(); ++rule) {
      for (const auto& prompt : prompts_) {
        unit_.rows.push_back({.prompt = prompt, .rule = static_cast<int>(rule)});
      }
    }
  }

  static std::unique_ptr<Engine> Load(const EngineOptions& options) {
    return LoadOrDie(TinyModel(GetParam()), DType::kFloat32, options);
  }

  static void ExpectSame(const GenerateResult& actual, const GenerateResult& expected) {
    ASSERT_EQ(actual.rows.size(), expected.rows.size());
    for (size_t i = 0; i < actual.rows.size(); ++i) {
      EXPECT_EQ(actual.rows[i].tokens, expected.rows[i].tokens) << "row " << i;
      EXPECT_EQ(actual.rows[i].masks, expected.rows[i].masks) << "row " << i;
    }
  }

  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<Engine> engine_;
  GenerateUnit unit_;
};

TEST_P(GenerateTest, EqualsComputingTheWholeInputAtEveryStep) {
  const GenerateResult result = GenerateOrDie(*engine_, unit_);
  std::set<std::vector<uint8_t>> all_masks;
  int flips = 0;
  for (size_t i = 0; i < unit_.rows.size(); ++i) {
    SCOPED_TRACE("row " + std::to_string(i));
    const GeneratedRow& row = result.rows[i];
    const Rule& rule = unit_.rules[static_cast<size_t>(unit_.rows[i].rule)];
    ASSERT_EQ(row.tokens.size(), static_cast<size_t>(kNewTokens));
    EXPECT_TRUE(row.finite);
    std::vector<int32_t> input(unit_.rows[i].prompt.begin(), unit_.rows[i].prompt.end());
    for (size_t step = 0; step < row.tokens.size(); ++step) {
      const Unit whole = MakeUnit({input}, {rule}, false);
      ASSERT_EQ(row.masks[step], RunOrDie(*engine_, whole).rows[0].mask) << "step " << step;
      ASSERT_EQ(row.tokens[step], Argmax(engine_->Logits(input, rule, 1).value()))
          << "step " << step;
      flips += step > 0 && row.masks[step] != row.masks[step - 1];
      input.push_back(row.tokens[step]);
    }
  }
  EXPECT_GT(flips, 20);  // decisions did change on the way
  EXPECT_LT(result.computed_tokens, result.recomputed_tokens / 3);
}

TEST_P(GenerateTest, AnyCacheAndBatchGiveTheSame) {
  unit_.max_new_tokens = 24;
  const GenerateResult expected = GenerateOrDie(*engine_, unit_);
  const EngineOptions several[] = {
      {.sharing = {.steps = false}},  // everything again
      {.max_cache_bytes = 1},         // one row at a time, and nothing but its own history
      {.max_batch_tokens = 40},       // prompts read one by one
      {.attention = AttentionKernel::kFlash},
      {.attention = AttentionKernel::kDense},
  };
  int64_t most = 0;
  for (const EngineOptions& options : several) {
    const GenerateResult result = GenerateOrDie(*Load(options), unit_);
    ExpectSame(result, expected);
    EXPECT_EQ(result.recomputed_tokens, expected.recomputed_tokens);
    most = std::max(most, result.computed_tokens);
  }
  EXPECT_EQ(most, expected.recomputed_tokens);  // the first of them
}

TEST_P(GenerateTest, RowsWithoutFlipsComputeEveryTokenOnce) {
  unit_.rules = {Rule{}, FixedRule({{0, 1}, {1, 0}}), RandomRule(0.3)};
  unit_.rows.resize(3 * kPrompts);
  for (size_t i = 0; i < unit_.rows.size(); ++i) {
    unit_.rows[i].rule = static_cast<int>(i / kPrompts);
    unit_.rows[i].sample = SampleName(i);
  }
  const GenerateResult result = GenerateOrDie(*engine_, unit_);
  int64_t tokens = 0;
  for (const GenerateRow& row : unit_.rows) {
    tokens += static_cast<int64_t>(row.prompt.size()) + kNewTokens - 1;
  }
  EXPECT_EQ(result.computed_tokens, tokens);
  for (const GeneratedRow& row : result.rows) {
    for (const auto& mask : row.masks) EXPECT_EQ(mask, row.masks[0]);
  }
}

TEST_P(GenerateTest, PromptOnceKeepsThePromptsDecision) {
  unit_.mask_update = MaskUpdate::kPromptOnce;
  unit_.max_new_tokens = 12;
  const GenerateResult result = GenerateOrDie(*engine_, unit_);
  const int heads = engine_->config().heads;
  for (size_t i = 0; i < unit_.rows.size(); ++i) {
    const GeneratedRow& row = result.rows[i];
    std::vector<int32_t> input(unit_.rows[i].prompt.begin(), unit_.rows[i].prompt.end());
    const Rule& rule = unit_.rules[static_cast<size_t>(unit_.rows[i].rule)];
    const auto decided = RunOrDie(*engine_, MakeUnit({input}, {rule}, false)).rows[0].mask;
    std::vector<Head> lost;
    for (int bit = 0; bit < engine_->config().layers * heads; ++bit) {
      if (decided[static_cast<size_t>(bit) / 8] >> (bit % 8) & 1) {
        lost.push_back({bit / heads, bit % heads});
      }
    }
    for (size_t step = 0; step < row.tokens.size(); ++step) {
      ASSERT_EQ(row.masks[step], decided);
      Rule fixed = FixedRule(lost);
      fixed.intervention = rule.intervention;
      ASSERT_EQ(row.tokens[step], Argmax(engine_->Logits(input, fixed, 1).value()));
      input.push_back(row.tokens[step]);
    }
  }
}

TEST_P(GenerateTest, AStopTokenEndsItsRowAlone) {
  unit_.max_new_tokens = 8;
  unit_.rows.resize(kPrompts);
  const GenerateResult whole = GenerateOrDie(*engine_, unit_);
  const int32_t stop = whole.rows[2].tokens[3];
  unit_.stop_tokens = {stop};
  const GenerateResult stopped = GenerateOrDie(*engine_, unit_);
  for (size_t i = 0; i < kPrompts; ++i) {
    std::vector<int32_t> expected = whole.rows[i].tokens;
    const auto end = std::find(expected.begin(), expected.end(), stop);
    if (end != expected.end()) expected.erase(end + 1, expected.end());
    EXPECT_EQ(stopped.rows[i].tokens, expected);
  }
}

TEST_P(GenerateTest, BadUnitsAreRefused) {
  const CancelFlag cancel = false;
  const auto refused = [&](const GenerateUnit& unit, const std::string& field) {
    const auto status = engine_->Generate(unit, cancel, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(field));
  };
  GenerateUnit unit = unit_;
  unit.max_new_tokens = 0;
  refused(unit, "max_new_tokens");
  unit = unit_;
  unit.max_new_tokens = engine_->config().max_position_embeddings - 10;
  refused(unit, "rows[2].prompt");
  unit = unit_;
  unit.rows[1].prompt = {};
  refused(unit, "rows[1].prompt");
  unit = unit_;
  unit.rows[1].rule = 99;
  refused(unit, "rows[1].rule");
  const std::vector<int32_t> outside = {100000};
  unit = unit_;
  unit.rows[0].prompt = outside;
  refused(unit, "rows[0].prompt[0]");
  unit = unit_;
  unit.stop_tokens = outside;
  refused(unit, "stop_tokens[0]");
}

TEST_P(GenerateTest, ACancelStopsIt) {
  const CancelFlag cancel = true;
  EXPECT_EQ(engine_->Generate(unit_, cancel, nullptr).status().code(),
            absl::StatusCode::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(Families, GenerateTest, ::testing::ValuesIn(kMechanismModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
