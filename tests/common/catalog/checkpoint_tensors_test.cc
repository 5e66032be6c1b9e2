// The tensors of a checkpoint by name: what is expected, what may be there besides, what is
// refused.

#include "common/catalog/checkpoint_tensors.h"

#include "common/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::catalog {
namespace {

using ::testing::HasSubstr;

ModelConfig Config(const std::string& model_type, bool tied) {
  const std::string json = R"({"model_type": ")" + model_type + R"(", "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16,
      "intermediate_size": 24, "vocab_size": 32, "max_position_embeddings": 64,
      "rms_norm_eps": 1e-5, "tie_word_embeddings": )" +
                           (tied ? "true}" : "false}");
  return ParseModelConfig(json, "config.json").value();
}

// What the family expects, of one type; `without` taken off the names.
Checkpoint Complete(const ModelConfig& config, const std::string& without = "") {
  Checkpoint checkpoint;
  for (const TensorSource& source : TensorSources(config, {})) {
    for (size_t i = 0; i < source.names.size(); ++i) {
      std::string name = source.names[i];
      if (name.starts_with(without)) name = name.substr(without.size());
      checkpoint.tensors[name] = {0, {DType::kBF16, source.shapes[i], 0, 0}};
    }
  }
  return checkpoint;
}

absl::Status Check(const ModelConfig& config, const Checkpoint& checkpoint) {
  return CheckTensors(config, checkpoint, TensorSources(config, checkpoint));
}

TEST(CheckpointTensors, EveryFamilyExpectsItsOwn) {
  const Checkpoint llama = Complete(Config("llama", false));
  EXPECT_TRUE(llama.tensors.contains("model.layers.1.post_attention_layernorm.weight"));
  EXPECT_FALSE(llama.tensors.contains("model.layers.1.self_attn.q_proj.bias"));
  const Checkpoint qwen2 = Complete(Config("qwen2", false));
  EXPECT_TRUE(qwen2.tensors.contains("model.layers.1.self_attn.q_proj.bias"));
  EXPECT_FALSE(qwen2.tensors.contains("model.layers.1.self_attn.o_proj.bias"));
  const Checkpoint olmo2 = Complete(Config("olmo2", false));
  EXPECT_EQ(olmo2.tensors.at("model.layers.0.self_attn.k_norm.weight").info.shape,
            std::vector<int64_t>({8}));
  EXPECT_FALSE(olmo2.tensors.contains("model.layers.0.input_layernorm.weight"));
}

TEST(CheckpointTensors, FilesOfTheBareModelHaveNoPrefix) {
  const ModelConfig config = Config("llama", true);
  EXPECT_TRUE(Check(config, Complete(config)).ok());
  EXPECT_TRUE(Check(config, Complete(config, "model.")).ok());
}

TEST(CheckpointTensors, TablesAndACopyOfATiedHeadAreIgnored) {
  const ModelConfig tied = Config("llama", true);
  Checkpoint checkpoint = Complete(tied);
  checkpoint.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {};
  checkpoint.tensors["lm_head.weight"] = {};
  EXPECT_TRUE(Check(tied, checkpoint).ok());
}

TEST(CheckpointTensors, WhatIsWrongIsNamed) {
  const ModelConfig config = Config("llama", false);
  const auto expect = [&](const Checkpoint& checkpoint, const std::string& part) {
    const absl::Status status = Check(config, checkpoint);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(status), "CHECKPOINT_MISMATCH");
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  };
  Checkpoint checkpoint = Complete(config);
  checkpoint.tensors.erase("model.layers.1.mlp.down_proj.weight");
  expect(checkpoint,
         "model.layers.1.mlp.down_proj.weight is missing; config.json makes it 16 x 24");
  checkpoint = Complete(config);
  checkpoint.tensors["model.norm.weight"].info.shape = {8};
  expect(checkpoint, "model.norm.weight is 8; config.json makes it 16");
  checkpoint = Complete(config);
  checkpoint.tensors["lm_head.weight"].info.dtype = DType::kF8E4M3;
  expect(checkpoint, "lm_head.weight has type F8_E4M3; F32, BF16 and F16 can be run");
  checkpoint = Complete(config);
  checkpoint.tensors["model.layers.0.self_attn.q_norm.weight"] = {};
  expect(checkpoint,
         "1 tensors that a llama model with this config.json does not have: "
         "model.layers.0.self_attn.q_norm.weight");
}

}  // namespace
}  // namespace headcount::catalog
