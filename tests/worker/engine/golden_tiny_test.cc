// The engine against values from the authors' own code, on a small random model of each family:
// every score of every prompt, logits, thresholds, and every ablation, forced and online.
// Tolerances: semantics section 8.

#include <algorithm>
#include <cmath>
#include <span>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr float kLogitTolerance = 2e-3f;

class TinyGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string folder = TinyModel(GetParam());
    tensors_ = ReadGoldenTensors(folder + "/golden.safetensors");
    json_ = ReadGoldenJson(folder + "/golden.json");
    prompts_ = TinyPrompts(GetParam());
    engine_ = LoadOrDie(folder);
    heads_ = static_cast<size_t>(engine_->config().layers * engine_->config().heads);
  }

  // Row `prompt` of a golden tensor [prompt][layer][head].
  const float* Golden(const std::string& name, size_t prompt) const {
    return tensors_.at(name).data() + prompt * heads_;
  }

  void ExpectLogits(size_t prompt, const Rule& rule, const std::string& golden) {
    const auto logits = engine_->Logits(prompts_[prompt], rule, 1);
    ASSERT_TRUE(logits.ok()) << logits.status();
    ExpectNear(*logits, tensors_.at(golden).data() + prompt * logits->size());
  }

  static void ExpectNear(const std::vector<float>& actual, const float* expected) {
    float worst = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      worst = std::max(worst, std::fabs(actual[i] - expected[i]));
    }
    EXPECT_LE(worst, kLogitTolerance);
  }

  // The six prompts under one rule, all in one unit, against the golden scores and masks of an
  // ablation.
  void ExpectAblation(const std::string& name, const std::vector<Rule>& rules) {
    Unit unit = MakeUnit(prompts_, rules, true);
    if (rules.size() == prompts_.size()) {  // a rule a prompt: row [i][i] alone
      std::vector<Row> rows;
      for (size_t i = 0; i < rules.size(); ++i) rows.push_back(unit.rows[i * prompts_.size() + i]);
      unit.rows = rows;
    }
    const UnitResult result = RunOrDie(*engine_, unit);
    const catalog::Score& score = ScoreOrDie(name.substr(7, name.rfind('/') - 7));
    for (size_t p = 0; p < prompts_.size(); ++p) {
      SCOPED_TRACE(name + " prompt " + std::to_string(p));
      const std::vector<float> mask = MaskOf(result.rows[p], engine_->config());
      const float* golden = Golden(name + "/mask", p);
      EXPECT_THAT(mask, ::testing::ElementsAreArray(golden, heads_));
      EXPECT_EQ(CompareScores(ScoresOf(result.rows[p], engine_->config(), score),
                              Golden(name + "/scores", p)),
                "");
      EXPECT_TRUE(result.rows[p].finite);
      ExpectLogits(p, unit.rules[static_cast<size_t>(unit.rows[p].rule)], name + "/last_logits");
    }
  }

  GoldenTensors tensors_;
  nlohmann::json json_;
  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<Engine> engine_;
  size_t heads_ = 0;
};

TEST_P(TinyGolden, ScoresOfEveryPrompt) {
  const UnitResult result = RunOrDie(*engine_, MakeUnit(prompts_, {Rule{}}, true));
  int compared = 0;
  for (const catalog::Score& score : catalog::Scores()) {
    if (score.is_random()) continue;
    for (size_t p = 0; p < prompts_.size(); ++p) {
      EXPECT_EQ(CompareScores(ScoresOf(result.rows[p], engine_->config(), score),
                              Golden("scores/" + score.alias, p)),
                "")
          << score.id << " prompt " << p;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 15 * 6);
}

TEST_P(TinyGolden, Logits) {
  for (size_t p = 0; p < prompts_.size(); ++p) ExpectLogits(p, Rule{}, "last_logits");
  const auto all = engine_->Logits(prompts_[3], Rule{}, static_cast<int>(prompts_[3].size()));
  ASSERT_TRUE(all.ok());
  ExpectNear(*all, tensors_.at("all_logits_of_prompt_3").data());
}

// Semantics section 4, written out: linear interpolation of (i/N, x_i) at f or 1 - f, clamped.
float Threshold(std::vector<float> pool, double fraction, catalog::Inactive inactive) {
  std::sort(pool.begin(), pool.end());
  const auto n = static_cast<double>(pool.size());
  const double y = inactive == catalog::Inactive::kBelow ? fraction : 1 - fraction;
  const double place = std::clamp(y, 1 / n, 1.0) * n - 1;
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, pool.size() - 1);
  return static_cast<float>(pool[low] +
                            (place - static_cast<double>(low)) * (pool[high] - pool[low]));
}

TEST_P(TinyGolden, ThresholdsOfPooledScores) {
  const UnitResult result = RunOrDie(*engine_, MakeUnit(prompts_, {Rule{}}, true));
  for (const auto& [alias, expected] : json_["thresholds"].items()) {
    const catalog::Score& score = ScoreOrDie(alias);
    std::vector<float> pool;
    for (const RowResult& row : result.rows) {
      const std::vector<float> scores = ScoresOf(row, engine_->config(), score);
      pool.insert(pool.end(), scores.begin(), scores.end());
    }
    std::vector<float> actual;
    for (const double share : json_["shares"]) {
      actual.push_back(Threshold(pool, share, score.inactive));
    }
    EXPECT_EQ(CompareScores(actual, expected.get<std::vector<float>>().data()), "") << alias;
  }
}

TEST_P(TinyGolden, EveryAblationOnline) {
  ASSERT_EQ(json_["ablations"].size(), 30u);
  for (const auto& [name, ablation] : json_["ablations"].items()) {
    const std::string alias = name.substr(7, name.rfind('/') - 7);
    ExpectAblation(name, {ThresholdRule(alias, ablation["threshold"].get<float>())});
  }
}

TEST_P(TinyGolden, EveryAblationForced) {
  for (const auto& [name, ablation] : json_["ablations"].items()) {
    std::vector<Rule> rules;
    for (size_t p = 0; p < prompts_.size(); ++p) {
      rules.push_back(FixedRule(engine_->config(), Golden(name + "/mask", p)));
    }
    ExpectAblation(name, rules);
  }
}

// All ablations of all scores at once: rules of many kinds share batches and do not disturb each
// other.
TEST_P(TinyGolden, AllAblationsInOneUnit) {
  std::vector<Rule> rules = {Rule{}};
  std::vector<std::string> names = {""};
  for (const auto& [name, ablation] : json_["ablations"].items()) {
    const std::string alias = name.substr(7, name.rfind('/') - 7);
    rules.push_back(ThresholdRule(alias, ablation["threshold"].get<float>()));
    names.push_back(name);
  }
  const UnitResult result = RunOrDie(*engine_, MakeUnit(prompts_, rules, false));
  for (size_t r = 1; r < names.size(); ++r) {
    for (size_t p = 0; p < prompts_.size(); ++p) {
      const RowResult& row = result.rows[r * prompts_.size() + p];
      EXPECT_THAT(MaskOf(row, engine_->config()),
                  ::testing::ElementsAreArray(Golden(names[r] + "/mask", p), heads_))
          << names[r] << " prompt " << p;
    }
  }
  for (size_t p = 0; p < prompts_.size(); ++p) {
    EXPECT_THAT(MaskOf(result.rows[p], engine_->config()), ::testing::Each(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TinyGolden, ::testing::ValuesIn(kAuthorsModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
