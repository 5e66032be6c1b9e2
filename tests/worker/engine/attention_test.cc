// Attention against its definition, on the same values, in every family, number type and layer; the
// real models' bfloat16 bounds (semantics section 8) with HEADCOUNT_FULL=1.

#include <cstdlib>

#include "comparing_attention.h"
#include "golden_data.h"
#include "gtest/gtest.h"
#include "worker/engine/tensor/device.h"

namespace headcount::engine {
namespace {

class AgainstDense : public ::testing::TestWithParam<std::string> {};

TEST_P(AgainstDense, OnePass) {
  const auto prompts = TinyPrompts(GetParam());
  const AttentionDifferences worst =
      CompareAttention(MakeOnePassAttention(), TinyModel(GetParam()), at::kFloat, prompts);
  EXPECT_GE(worst.layers, 2 * static_cast<int>(prompts.size()));
  EXPECT_LT(worst.z, 2e-5);
  EXPECT_LT(worst.first_weight, 5e-6);
  EXPECT_LT(worst.entropy, 2e-5);
  EXPECT_LT(worst.mean_entropy, 5e-6);
}

TEST_P(AgainstDense, FlashInFloat32) {
  const auto prompts = TinyPrompts(GetParam());
  const AttentionDifferences worst =
      CompareAttention(MakeFlashAttention(), TinyModel(GetParam()), at::kFloat, prompts);
  EXPECT_GE(worst.layers, 2 * static_cast<int>(prompts.size()));
  EXPECT_LT(worst.z, 2e-5);
  EXPECT_LT(worst.first_weight, 5e-6);
  EXPECT_LT(worst.entropy, 2e-5);
  EXPECT_LT(worst.mean_entropy, 5e-6);
}

TEST_P(AgainstDense, FlashInBFloat16) {
  const AttentionDifferences worst = CompareAttention(MakeFlashAttention(), TinyModel(GetParam()),
                                                      at::kBFloat16, TinyPrompts(GetParam()));
  EXPECT_GE(worst.layers, 2);
  EXPECT_LT(worst.mean_first_weight, 1e-3);
  EXPECT_LT(worst.mean_entropy, 1e-2);
  EXPECT_LT(worst.mean_output_norm_relative, 5e-3);
}

TEST_P(AgainstDense, FlashOnAGpu) {
  const auto gpu = OpenDevice({Device::Kind::kCuda, 0});
  if (!gpu.ok()) GTEST_SKIP() << "no GPU: " << gpu.status();
  const AttentionDifferences exact = CompareAttention(MakeFlashAttention(), TinyModel(GetParam()),
                                                      at::kFloat, TinyPrompts(GetParam()), *gpu);
  EXPECT_LT(exact.z, 5e-5);
  EXPECT_LT(exact.first_weight, 1e-5);
  EXPECT_LT(exact.mean_entropy, 2e-5);
  const AttentionDifferences half = CompareAttention(MakeFlashAttention(), TinyModel(GetParam()),
                                                     at::kBFloat16, TinyPrompts(GetParam()), *gpu);
  EXPECT_LT(half.mean_first_weight, 1e-3);
  EXPECT_LT(half.mean_entropy, 1e-2);
  EXPECT_LT(half.mean_output_norm_relative, 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Families, AgainstDense, ::testing::ValuesIn(kTinyModels),
                         [](const auto& info) { return info.param.substr(5); });

class RealModelBounds : public ::testing::TestWithParam<std::string> {};

TEST_P(RealModelBounds, BFloat16) {
  if (std::getenv("HEADCOUNT_FULL") == nullptr) {
    GTEST_SKIP() << "bfloat16 bounds on real models: set HEADCOUNT_FULL=1";
  }
  const std::string model = RealModel(GetParam());
  if (model.empty()) GTEST_SKIP() << GetParam() << " has not been made: deploy/demo_model.py";
  // Any text does; these are token ids that both vocabularies have.
  std::vector<int32_t> prompt;
  for (int i = 0; i < 353; ++i) prompt.push_back(100 + (i * i * 7 + i * 13) % 9000);
  const AttentionDifferences worst =
      CompareAttention(MakeFlashAttention(), model, at::kBFloat16, {prompt});
  EXPECT_GE(worst.layers, 24);
  EXPECT_LT(worst.mean_first_weight, 1e-3);
  EXPECT_LT(worst.mean_entropy, 1e-2);
  EXPECT_LT(worst.mean_output_norm_relative, 5e-3);
  RecordProperty("mean_entropy", std::to_string(worst.mean_entropy));
}

INSTANTIATE_TEST_SUITE_P(Models, RealModelBounds,
                         ::testing::Values("SmolLM2-135M-Instruct", "Qwen2.5-Coder-0.5B-Instruct"),
                         [](const auto& info) {
                           return info.param.substr(0, 5) == "SmolL" ? "SmolLM2" : "Qwen25Coder";
                         });

}  // namespace
}  // namespace headcount::engine
