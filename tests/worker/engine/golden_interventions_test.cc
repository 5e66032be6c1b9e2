// What takes the place of inactive heads, against transformers with hooks
// (tests/golden/make_interventions.py): fixed heads and heads decided online, on every tiny model.

#include <cmath>
#include <memory>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr float kLogitTolerance = 5e-5f;  // far below what any of the cases changes

// Of all prompts, by the engine's own sums.
std::shared_ptr<const HeadMeans> MeansOf(Engine& engine,
                                         const std::vector<std::vector<int32_t>>& prompts) {
  Unit unit = MakeUnit(prompts, {Rule{}}, false);
  unit.record.head_sums = true;
  const HeadSums sums = *RunOrDie(engine, unit).head_sums;
  auto means = std::make_shared<HeadMeans>(HeadMeans{sums.rest, sums.first});
  for (float& x : means->rest) x /= static_cast<float>(sums.rest_count);
  for (float& x : means->first) x /= static_cast<float>(sums.first_count);
  return means;
}

Rule RuleOf(const nlohmann::json& golden, const std::shared_ptr<const HeadMeans>& means) {
  std::vector<Head> heads;
  for (const auto& head : golden.at("heads")) heads.push_back({head[0], head[1]});
  Rule rule = golden.at("threshold").is_null()
                  ? FixedRule(heads)
                  : ThresholdRule("output_norm_ln", golden["threshold"].get<float>());
  const auto& intervention = golden.at("intervention");
  const std::string kind = intervention.at("kind");
  if (kind == "scale") return Scaled(rule, intervention.at("scale").get<float>());
  if (kind == "first_value") return ToFirstValue(rule);
  if (kind == "mean") return ToMean(rule, means);
  EXPECT_EQ(kind, "zero");
  return rule;
}

std::vector<float> Flat(const nlohmann::json& rows) {
  std::vector<float> out;
  for (const auto& row : rows) {
    for (const auto& value : row) out.push_back(value.get<float>());
  }
  return out;
}

class GoldenInterventions : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenInterventions, MasksAndLogits) {
  const auto engine = LoadOrDie(TinyModel(GetParam()));
  const auto prompts = TinyPrompts(GetParam());
  const auto cases = ReadGoldenJson("tests/golden/interventions.json").at(GetParam());
  const auto means = MeansOf(*engine, prompts);
  for (const auto& golden : cases) {
    const Rule rule = RuleOf(golden, means);
    int changed = 0;
    for (const auto& answer : golden.at("answers")) {
      SCOPED_TRACE(golden.at("name").get<std::string>() + " prompt " + answer.at("prompt").dump());
      const auto& prompt = prompts[answer.at("prompt").get<size_t>()];
      const std::vector<float> mask = Flat(answer.at("mask"));
      const UnitResult result = RunOrDie(*engine, MakeUnit({prompt}, {rule}, false));
      EXPECT_THAT(MaskOf(result.rows[0], engine->config()), ::testing::ElementsAreArray(mask));
      for (float lost : mask) changed += lost != 0;
      const auto expected = answer.at("logits").get<std::vector<float>>();
      const auto logits = engine->Logits(prompt, rule, 1);
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR((*logits)[i], expected[i], kLogitTolerance) << "token " << i;
      }
    }
    EXPECT_GT(changed, 0) << golden.at("name");
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenInterventions, ::testing::ValuesIn(kAuthorsModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
