// The engine on SmolLM2-135M-Instruct against stock transformers (logits) and the authors' code
// (scores, ablations). Needs the model (deploy/demo_model.py) and the shared golden values; skips
// where one is absent.
//
// HEADCOUNT_FULL=1 forces all 15 ablations and not only those that rounding may decide.
//
// One pass under a rule gives all that is compared: with the four answer letters as continuations
// of one token their log-likelihoods are letter logit - log-sum-exp.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr float kLogitTolerance = 2e-3f;
constexpr float kUndecided =
    1e-4f;  // relative distance from a threshold within which a decision may differ

class SmolLm2Golden : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string model = RealModel("SmolLM2-135M-Instruct");
    golden_ = engine::SmolLm2Golden();
    if (!model.empty() && !golden_.empty()) engine_ = LoadOrDie(model).release();
  }
  static void TearDownTestSuite() {
    delete engine_;
    engine_ = nullptr;
  }

  void SetUp() override {
    if (golden_.empty())
      GTEST_SKIP() << "golden values of SmolLM2: no shared data (HEADCOUNT_SHARED)";
    if (engine_ == nullptr) {
      GTEST_SKIP()
          << "golden values of SmolLM2: the model has not been made (deploy/demo_model.py)";
    }
    const auto prompts = ReadGoldenJson(golden_ + "/prompts.json");
    letters_ = prompts["abcd_token_ids"].get<std::vector<int32_t>>();
    for (const auto& prompt : prompts["prompts"]) {
      prompts_.push_back(prompt["token_ids"].get<std::vector<int32_t>>());
    }
    heads_ = static_cast<size_t>(engine_->config().layers * engine_->config().heads);
  }

  UnitResult Run(std::vector<Rule> rules) {
    Unit unit = MakeUnit(prompts_, {rules[0]}, true);
    unit.rules = std::move(rules);
    for (size_t p = 0; p < unit.rows.size(); ++p) {
      unit.rows[p].targets = letters_;
      unit.rows[p].scored = 1;
      unit.rows[p].rule = unit.rules.size() == 1 ? 0 : static_cast<int>(p);
    }
    return RunOrDie(*engine_, unit);
  }

  void ExpectLetters(const RowResult& row, const GoldenTensors& golden, const std::string& prefix,
                     size_t prompt) {
    for (size_t c = 0; c < 4; ++c) {
      EXPECT_NEAR(row.log_likelihoods[c],
                  golden.at(prefix + "abcd_logits")[prompt * 4 + c] -
                      golden.at(prefix + "logsumexp")[prompt],
                  kLogitTolerance);
    }
  }

  static Engine* engine_;
  static std::string golden_;
  std::vector<int32_t> letters_;
  std::vector<std::vector<int32_t>> prompts_;
  size_t heads_ = 0;
};

// The first head that rounding decides, from which on an online run may differ; `count` when there
// is none.
size_t FirstUndecided(const float* scores, size_t count, float threshold) {
  for (size_t i = 0; i < count; ++i) {
    if (std::fabs(scores[i] - threshold) <= kUndecided * std::fabs(threshold)) return i;
  }
  return count;
}

Engine* SmolLm2Golden::engine_ = nullptr;
std::string SmolLm2Golden::golden_;

TEST_F(SmolLm2Golden, BaselineLogitsAndScores) {
  const GoldenTensors baseline = ReadGoldenTensors(golden_ + "/baseline.safetensors");
  const GoldenTensors scores = ReadGoldenTensors(golden_ + "/scores.safetensors");
  const UnitResult result = Run({Rule{}});
  for (size_t p = 0; p < prompts_.size(); ++p) {
    SCOPED_TRACE(p);
    ExpectLetters(result.rows[p], baseline, "", p);
    for (const catalog::Score& score : catalog::Scores()) {
      if (score.is_random()) continue;
      EXPECT_EQ(CompareScores(ScoresOf(result.rows[p], engine_->config(), score),
                              scores.at(score.alias).data() + p * heads_),
                "")
          << score.id;
    }
  }
  const auto logits = engine_->Logits(prompts_[1], Rule{}, 1);
  ASSERT_TRUE(logits.ok());
  const float* expected = baseline.at("last_logits").data() + logits->size();
  float worst = 0;
  for (size_t i = 0; i < logits->size(); ++i) {
    worst = std::max(worst, std::fabs((*logits)[i] - expected[i]));
  }
  EXPECT_LE(worst, kLogitTolerance);
}

TEST_F(SmolLm2Golden, AblationsForced) {
  const GoldenTensors golden = ReadGoldenTensors(golden_ + "/ablation.safetensors");
  const auto ablations = ReadGoldenJson(golden_ + "/ablation.json");
  ASSERT_EQ(ablations.size(), 15u);
  int forced = 0;
  for (const auto& [name, ablation] : ablations.items()) {
    // The online runs cover an ablation whose heads are all decided; the others need this one.
    const float* all = golden.at(name + "/scores").data();
    const size_t count = prompts_.size() * heads_;
    const bool decided = FirstUndecided(all, count, ablation["threshold"].get<float>()) == count;
    if (decided && std::getenv("HEADCOUNT_FULL") == nullptr) continue;
    ++forced;
    std::vector<Rule> rules;
    for (size_t p = 0; p < prompts_.size(); ++p) {
      rules.push_back(FixedRule(engine_->config(), golden.at(name + "/mask").data() + p * heads_));
    }
    const UnitResult result = Run(rules);
    const catalog::Score& score = ScoreOrDie(name.substr(0, name.find('/')));
    for (size_t p = 0; p < prompts_.size(); ++p) {
      SCOPED_TRACE(name + " prompt " + std::to_string(p));
      ExpectLetters(result.rows[p], golden, name + "/", p);
      EXPECT_EQ(CompareScores(ScoresOf(result.rows[p], engine_->config(), score),
                              golden.at(name + "/scores").data() + p * heads_),
                "");
    }
  }
  EXPECT_GE(forced, 4);
}

// Masks are equal up to the first head whose score is so near its threshold that rounding decides.
TEST_F(SmolLm2Golden, AblationsOnline) {
  const GoldenTensors golden = ReadGoldenTensors(golden_ + "/ablation.safetensors");
  const auto ablations = ReadGoldenJson(golden_ + "/ablation.json");
  const auto heads = static_cast<size_t>(engine_->config().heads);
  size_t compared = 0;
  for (const auto& [name, ablation] : ablations.items()) {
    const auto threshold = ablation["threshold"].get<float>();
    const UnitResult result = Run({ThresholdRule(name.substr(0, name.find('/')), threshold)});
    for (size_t p = 0; p < prompts_.size(); ++p) {
      SCOPED_TRACE(name + " prompt " + std::to_string(p));
      const std::vector<float> mask = MaskOf(result.rows[p], engine_->config());
      const float* expected = golden.at(name + "/mask").data() + p * heads_;
      const float* scores = golden.at(name + "/scores").data() + p * heads_;
      const size_t decided = FirstUndecided(scores, heads_, threshold) / heads * heads;
      EXPECT_THAT(
          std::vector<float>(mask.begin(), mask.begin() + static_cast<std::ptrdiff_t>(decided)),
          ::testing::ElementsAreArray(expected, decided));
      compared += decided;
      if (decided == heads_) ExpectLetters(result.rows[p], golden, name + "/", p);
    }
  }
  EXPECT_GT(compared, 15 * prompts_.size() * heads_ / 2);
}

}  // namespace
}  // namespace headcount::engine
