// The engine against transformers' eager attention (tests/golden/make_families.py), on a small
// random model of each family: the seven measurements and the logits of the baseline, of a fixed
// mask and of a rule that decides online. Tolerances: semantics section 8.

#include <algorithm>
#include <cmath>
#include <iostream>

#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr float kLogitTolerance = 2e-3f;

class FamilyGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string folder = TinyModel(GetParam());
    tensors_ = ReadGoldenTensors(folder + "/golden.safetensors");
    json_ = ReadGoldenJson(folder + "/golden.json");
    prompts_ = TinyPrompts(GetParam());
  }

  // Largest differences of logits and measurements of all prompts under `rule` from the golden
  // values `kind`; masks must be equal.
  void Expect(Engine& engine, const Rule& rule, const std::string& kind) {
    const UnitResult result = RunOrDie(engine, MakeUnit(prompts_, {rule}, true));
    const size_t vocabulary = static_cast<size_t>(engine.config().vocab_size);
    for (size_t p = 0; p < prompts_.size(); ++p) {
      SCOPED_TRACE(kind + "prompt " + std::to_string(p));
      const RowResult& row = result.rows[p];
      const float* measured = Golden(kind + "measurements", p, row.measurements.size());
      EXPECT_EQ(CompareScores(row.measurements, measured), "");
      EXPECT_TRUE(row.finite);
      if (!kind.empty()) {
        const std::vector<float> mask = MaskOf(row, engine.config());
        EXPECT_THAT(
            mask, ::testing::ElementsAreArray(Golden(kind + "mask", p, mask.size()), mask.size()));
      }
      const auto logits = engine.Logits(prompts_[p], rule, 1);
      ASSERT_TRUE(logits.ok()) << logits.status();
      ExpectLogits(*logits, Golden(kind + "last_logits", p, vocabulary));
    }
  }

  const float* Golden(const std::string& name, size_t prompt, size_t size) const {
    return tensors_.at(name).data() + prompt * size;
  }

  static void ExpectLogits(const std::vector<float>& actual, const float* expected) {
    float worst = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      worst = std::max(worst, std::fabs(actual[i] - expected[i]));
    }
    EXPECT_LE(worst, kLogitTolerance);
  }

  Rule Online() const { return ThresholdRule("HONOR", json_["online_threshold"].get<float>()); }

  GoldenTensors tensors_;
  nlohmann::json json_;
  std::vector<std::vector<int32_t>> prompts_;
};

TEST_P(FamilyGolden, EveryKernelGivesTransformersNumbers) {
  for (AttentionKernel kernel :
       {AttentionKernel::kBest, AttentionKernel::kFlash, AttentionKernel::kDense}) {
    SCOPED_TRACE("kernel " + std::to_string(static_cast<int>(kernel)));
    const auto engine = LoadOrDie(TinyModel(GetParam()), DType::kFloat32, {.attention = kernel});
    Expect(*engine, Rule{}, "");
    Expect(*engine, FixedRule(engine->config(), tensors_.at("fixed/mask").data()), "fixed/");
    Expect(*engine, Online(), "online/");
    const auto all = engine->Logits(prompts_[2], Rule{}, static_cast<int>(prompts_[2].size()));
    ASSERT_TRUE(all.ok());
    ExpectLogits(*all, tensors_.at("all_logits_of_prompt_2").data());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGolden, ::testing::ValuesIn(kFamilyModels),
                         [](const auto& info) { return info.param.substr(5); });

// docs/models.md has the rows that this prints.
class Parity : public ::testing::TestWithParam<std::string> {};

TEST_P(Parity, OfTheLastTokensLogits) {
  const GoldenTensors golden = ReadGoldenTensors(TinyModel(GetParam()) + "/golden.safetensors");
  const std::vector<float>& expected = golden.at("last_logits");
  const auto prompts = TinyPrompts(GetParam());
  struct Type {
    DType dtype;
    const char* name;
    float bound;  // relative to the largest logit
  };
  for (const Type& type :
       {Type{DType::kFloat32, "float32", 1e-4f}, Type{DType::kBFloat16, "bfloat16", 0.05f}}) {
    const auto engine = LoadOrDie(TinyModel(GetParam()), type.dtype);
    float worst = 0, largest = 0;
    for (size_t p = 0; p < prompts.size(); ++p) {
      const auto logits = engine->Logits(prompts[p], Rule{}, 1);
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (size_t i = 0; i < logits->size(); ++i) {
        const float wanted = expected[p * logits->size() + i];
        worst = std::max(worst, std::fabs((*logits)[i] - wanted));
        largest = std::max(largest, std::fabs(wanted));
      }
    }
    EXPECT_LE(worst, type.bound * largest) << type.name;
    std::cout << "| " << engine->config().model_type << " (" << GetParam() << ") | " << type.name
              << " | " << worst << " | " << largest << " |\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Parity, ::testing::ValuesIn(kTinyModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
