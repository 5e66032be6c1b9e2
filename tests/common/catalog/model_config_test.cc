// What config.json says and what is refused, setting by setting.

#include "common/catalog/model_config.h"

#include <string>

#include "common/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace headcount::catalog {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json Llama() {
  return {{"model_type", "llama"},       {"num_hidden_layers", 30},
          {"num_attention_heads", 9},    {"num_key_value_heads", 3},
          {"hidden_size", 576},          {"intermediate_size", 1536},
          {"vocab_size", 49152},         {"max_position_embeddings", 8192},
          {"rms_norm_eps", 1e-5},        {"rope_theta", 100000},
          {"tie_word_embeddings", true}, {"torch_dtype", "bfloat16"},
          {"hidden_act", "silu"},        {"bos_token_id", 1},
          {"eos_token_id", {2, 3}}};
}

absl::StatusOr<ModelConfig> Parse(const Json& json) {
  return ParseModelConfig(json.dump(), "m/config.json");
}

// Llama() with the patch applied is refused, and the message holds all of `parts`.
void ExpectRefused(const Json& patch, const std::vector<std::string>& parts) {
  Json json = Llama();
  json.merge_patch(patch);
  const absl::Status status = Parse(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << patch;
  EXPECT_EQ(ReasonOf(status), "UNSUPPORTED_MODEL");
  EXPECT_THAT(std::string(status.message()), HasSubstr("m/config.json"));
  for (const std::string& part : parts) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ModelConfig, ReadsLlama) {
  const auto config = Parse(Llama());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->layers, 30);
  EXPECT_EQ(config->heads, 9);
  EXPECT_EQ(config->kv_heads, 3);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->hidden_size, 576);
  EXPECT_EQ(config->intermediate_size, 1536);
  EXPECT_EQ(config->vocab_size, 49152);
  EXPECT_EQ(config->rope_theta, 100000);
  EXPECT_EQ(config->rope_scaling, RopeScaling::kNone);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_FALSE(config->attention_bias || config->output_bias || config->mlp_bias);
  EXPECT_EQ(config->eos_token_id, 2);
  EXPECT_EQ(config->group_size(), 3);
  EXPECT_EQ(config->kv_head_of(8), 2);
}

TEST(ModelConfig, FillsInWhatTransformersFillsIn) {
  Json json = Llama();
  for (const char* key : {"num_key_value_heads", "rope_theta", "tie_word_embeddings", "torch_dtype",
                          "hidden_act", "bos_token_id"}) {
    json.erase(key);
  }
  json["dtype"] = "float16";
  const auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_heads, 9);
  EXPECT_EQ(config->rope_theta, 10000);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->torch_dtype, "float16");
  EXPECT_FALSE(config->bos_token_id.has_value());
}

TEST(ModelConfig, ReadsRopeScalingInBothSpellings) {
  Json json = Llama();
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(Parse(json)->rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(Parse(json)->rope_factor, 4);
  json.erase("rope_scaling");
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "llama3"},  {"factor", 8},
                             {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                             {"rope_theta", 500000.0}, {"original_max_position_embeddings", 64}};
  const auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_scaling, RopeScaling::kLlama3);
  EXPECT_EQ(config->rope_theta, 500000);
  EXPECT_EQ(config->llama3.original_max_position_embeddings, 64);
}

TEST(ModelConfig, KnowsEachFamilysBiases) {
  Json json = Llama();
  json["attention_bias"] = true;
  json["mlp_bias"] = true;
  EXPECT_TRUE(Parse(json)->attention_bias && Parse(json)->output_bias && Parse(json)->mlp_bias);
  json["model_type"] = "qwen2";
  const auto qwen2 = Parse(json);
  EXPECT_TRUE(qwen2->attention_bias);
  EXPECT_FALSE(qwen2->output_bias || qwen2->mlp_bias);
  json["model_type"] = "olmo2";
  json["attention_bias"] = false;
  EXPECT_FALSE(Parse(json)->attention_bias || Parse(json)->mlp_bias);
  EXPECT_EQ(Parse(json)->family->norm_placement, NormPlacement::kAfter);
  EXPECT_EQ(Parse(json)->family->qk_norm, QkNorm::kProjection);
}

TEST(ModelConfig, RefusesByName) {
  ExpectRefused({{"model_type", "gpt2"}}, {"model_type", "gpt2", "llama, qwen2, olmo2"});
  ExpectRefused({{"hidden_size", 577}}, {"hidden_size", "577", "num_attention_heads, which is 9"});
  ExpectRefused({{"num_key_value_heads", 2}}, {"num_key_value_heads", "got 2", "which is 9"});
  ExpectRefused({{"num_attention_heads", 0}}, {"num_attention_heads", "from 1 to", "got 0"});
  ExpectRefused({{"num_hidden_layers", "30"}}, {"num_hidden_layers", "integer"});
  ExpectRefused({{"num_hidden_layers", 1e300}}, {"num_hidden_layers"});
  ExpectRefused({{"vocab_size", 18446744073709551615u}}, {"vocab_size"});
  ExpectRefused({{"vocab_size", nullptr}}, {"vocab_size", "missing"});
  ExpectRefused({{"head_dim", 63}}, {"head_dim", "even"});
  ExpectRefused({{"rms_norm_eps", 0}}, {"rms_norm_eps", "greater than 0"});
  ExpectRefused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu", "silu"});
  ExpectRefused({{"use_sliding_window", true}}, {"use_sliding_window", "true"});
  ExpectRefused({{"layer_types", {"full_attention", "sliding_attention"}}}, {"layer_types"});
  ExpectRefused({{"quantization_config", {{"bits", 4}}}}, {"quantization_config"});
  ExpectRefused({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}},
                {"rope_scaling", "rope_type", "yarn", "llama3"});
  ExpectRefused({{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, {"factor", "got 0"});
  ExpectRefused({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}, {"low_freq_factor"});
  ExpectRefused({{"attention_bias", 1}}, {"attention_bias", "true or false"});
  ExpectRefused({{"partial_rotary_factor", 0.5}}, {"partial_rotary_factor"});
}

TEST(ModelConfig, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "{", "null", "\xff\xfe"}) {
    EXPECT_EQ(ParseModelConfig(text, "x").status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(ModelConfig, AMissingFolderIsNotFound) {
  EXPECT_EQ(ReadModelConfig("/nonexistent/model").status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelConfig, AnOddHeadSizeIsRefusedWhereItIsDerived) {
  ExpectRefused({{"hidden_size", 567}}, {"hidden_size", "63 dimensions"});
}

}  // namespace
}  // namespace headcount::catalog
