// What config.json says and what is refused, setting by setting.

#include "common/catalog/model_config.h"

#include <string>

#include "common/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace headcount::catalog {
namespace {

using ::testing::ElementsAre;
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
  EXPECT_EQ(config->rope.theta, 100000);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kNone);
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
  EXPECT_EQ(config->rope.theta, 10000);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->torch_dtype, "float16");
  EXPECT_FALSE(config->bos_token_id.has_value());
}

TEST(ModelConfig, ReadsRopeScalingInBothSpellings) {
  Json json = Llama();
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(Parse(json)->rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(Parse(json)->rope.factor, 4);
  json.erase("rope_scaling");
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "llama3"},  {"factor", 8},
                             {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                             {"rope_theta", 500000.0}, {"original_max_position_embeddings", 64}};
  const auto config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(config->rope.theta, 500000);
  EXPECT_EQ(config->rope.llama3.original_max_position_embeddings, 64);
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

TEST(ModelConfig, DynamicScalingIsNoneUpToTheContextLength) {
  Json json = Llama();
  json["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  EXPECT_EQ(Parse(json)->rope.scaling, RopeScaling::kNone);
}

// The window of each layer.
std::vector<int64_t> WindowsOf(const Json& json) {
  const auto config = Parse(json);
  EXPECT_TRUE(config.ok()) << config.status();
  std::vector<int64_t> out;
  for (const LayerAttention& layer : config->attention) out.push_back(layer.window);
  return out;
}

Json Patched(const Json& patch) {
  Json json = Llama();
  json["num_hidden_layers"] = 3;
  json.merge_patch(patch);
  return json;
}

TEST(ModelConfig, MistralHasItsWindowInEveryLayer) {
  const Json json = Patched({{"model_type", "mistral"}, {"sliding_window", 4096}});
  EXPECT_THAT(WindowsOf(json), ElementsAre(4096, 4096, 4096));
  Json none = json;
  none["sliding_window"] = nullptr;  // v0.3
  EXPECT_THAT(WindowsOf(none), ElementsAre(0, 0, 0));
  none.erase("sliding_window");  // transformers' default
  EXPECT_THAT(WindowsOf(none), ElementsAre(4096, 4096, 4096));
}

TEST(ModelConfig, QwenHasItsWindowInUpperLayersWhereItIsUsed) {
  const Json json = Patched({{"model_type", "qwen2"},
                             {"use_sliding_window", true},
                             {"sliding_window", 100},
                             {"max_window_layers", 1}});
  EXPECT_THAT(WindowsOf(json), ElementsAre(0, 100, 100));
  Json other = json;
  other["use_sliding_window"] = false;
  EXPECT_THAT(WindowsOf(other), ElementsAre(0, 0, 0));
  other = json;
  other.erase("max_window_layers");  // 28
  EXPECT_THAT(WindowsOf(other), ElementsAre(0, 0, 0));
  other = json;
  other["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(WindowsOf(other), ElementsAre(100, 0, 100));
}

TEST(ModelConfig, GemmaHasItsWindowInAPattern) {
  Json json = Patched({{"model_type", "gemma2"},
                       {"query_pre_attn_scalar", 144},
                       {"sliding_window", 100},
                       {"num_hidden_layers", 4}});
  EXPECT_THAT(WindowsOf(json), ElementsAre(100, 0, 100, 0));
  const auto gemma2 = Parse(json);
  EXPECT_EQ(gemma2->head_dim, 256);
  EXPECT_EQ(gemma2->attention[0].scale, 1.0 / 12);
  EXPECT_EQ(gemma2->attention_soft_cap, 50);
  EXPECT_EQ(gemma2->logit_soft_cap, 30);
  EXPECT_EQ(gemma2->embedding_scale, 24);
  EXPECT_EQ(gemma2->activation, Activation::kGeluTanh);
  json["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(Parse(json)->attention_soft_cap, 0);

  json["model_type"] = "gemma3_text";
  json["num_hidden_layers"] = 7;
  EXPECT_THAT(WindowsOf(json), ElementsAre(100, 100, 100, 100, 100, 0, 100));
  json["rope_theta"] = 1e6;
  json["rope_local_base_freq"] = 5000;
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  const auto gemma3 = Parse(json);
  EXPECT_TRUE(gemma3->attention[0].local_rope);
  EXPECT_FALSE(gemma3->attention[5].local_rope);
  EXPECT_EQ(gemma3->rope.theta, 1e6);
  EXPECT_EQ(gemma3->rope.factor, 8);
  EXPECT_EQ(gemma3->local_rope.theta, 5000);
  EXPECT_EQ(gemma3->local_rope.scaling, RopeScaling::kNone);
  json.erase("rope_scaling");
  json["rope_parameters"] = {{"full_attention", {{"rope_theta", 2e6}}},
                             {"sliding_attention", {{"rope_theta", 3e4}}}};
  EXPECT_EQ(Parse(json)->rope.theta, 2e6);
  EXPECT_EQ(Parse(json)->local_rope.theta, 3e4);
}

TEST(ModelConfig, ReadsTheNamesOfGpt2AndGptNeoX) {
  const auto gpt2 = Parse({{"model_type", "gpt2"},
                           {"n_layer", 3},
                           {"n_head", 4},
                           {"n_embd", 64},
                           {"n_positions", 128},
                           {"vocab_size", 100},
                           {"layer_norm_epsilon", 1e-5},
                           {"scale_attn_by_inverse_layer_idx", true}});
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ(gpt2->kv_heads, 4);
  EXPECT_EQ(gpt2->intermediate_size, 256);
  EXPECT_EQ(gpt2->max_position_embeddings, 128);
  EXPECT_EQ(gpt2->attention[2].scale, 1.0 / 12);
  EXPECT_TRUE(gpt2->tie_word_embeddings && gpt2->attention_bias && gpt2->mlp_bias);

  Json json = Llama();
  json.erase("tie_word_embeddings");
  json.erase("hidden_act");
  json["model_type"] = "gpt_neox";
  json["layer_norm_eps"] = 1e-5;
  json["rotary_emb_base"] = 5000;
  const auto neox = Parse(json);
  ASSERT_TRUE(neox.ok()) << neox.status();
  EXPECT_EQ(neox->kv_heads, 9);
  EXPECT_EQ(neox->rotary_dim, 16);
  EXPECT_EQ(neox->rope.theta, 5000);
  EXPECT_EQ(neox->activation, Activation::kGelu);
  EXPECT_TRUE(neox->parallel_blocks && neox->attention_bias && neox->output_bias);
}

// What is refused, by family, and what the message names.
struct Refused {
  const char* what;
  Json patch;
  std::vector<std::string> parts;
};

std::vector<Refused> RefusedSettings() {
  return {
      {"no family", {{"model_type", "mamba"}}, {"model_type", "mamba", "llama, qwen2, olmo2"}},
      {"no model_type", {{"model_type", nullptr}}, {"model_type", "missing"}},
      {"heads that do not divide",
       {{"hidden_size", 577}},
       {"hidden_size", "577", "num_attention_heads, which is 9"}},
      {"KV heads", {{"num_key_value_heads", 2}}, {"num_key_value_heads", "got 2", "which is 9"}},
      {"no heads", {{"num_attention_heads", 0}}, {"num_attention_heads", "from 1 to", "got 0"}},
      {"text", {{"num_hidden_layers", "30"}}, {"num_hidden_layers", "integer"}},
      {"huge", {{"num_hidden_layers", 1e300}}, {"num_hidden_layers"}},
      {"overflow", {{"vocab_size", 18446744073709551615u}}, {"vocab_size"}},
      {"null", {{"vocab_size", nullptr}}, {"vocab_size", "missing"}},
      {"odd head", {{"head_dim", 63}}, {"head_dim", "even"}},
      {"odd derived head", {{"hidden_size", 567}}, {"hidden_size", "63 dimensions"}},
      {"eps", {{"rms_norm_eps", 0}}, {"rms_norm_eps", "greater than 0"}},
      {"activation", {{"hidden_act", "mish"}}, {"hidden_act", "mish", "silu", "gelu_new"}},
      {"window", {{"use_sliding_window", true}}, {"use_sliding_window", "true"}},
      {"sliding layers",
       {{"layer_types", Json(std::vector<std::string>(30, "sliding_attention"))}},
       {"layer_types", "layer 0", "full_attention only"}},
      {"chunked layers",
       {{"model_type", "mistral"},
        {"layer_types", Json(std::vector<std::string>(30, "chunked_attention"))}},
       {"layer_types", "layer 0", "chunked_attention"}},
      {"too few layer types", {{"layer_types", {"full_attention"}}}, {"layer_types", "30"}},
      {"no window",
       {{"model_type", "mistral"}, {"sliding_window", 0}},
       {"sliding_window", "got 0"}},
      {"window of text",
       {{"model_type", "mistral"}, {"sliding_window", "4096"}},
       {"sliding_window", "integer"}},
      {"quantized", {{"quantization_config", {{"bits", 4}}}}, {"quantization_config"}},
      {"experts", {{"num_local_experts", 8}}, {"num_local_experts", "8"}},
      {"soft cap", {{"attn_logit_softcapping", 50.0}}, {"attn_logit_softcapping", "50"}},
      {"yarn",
       {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}},
       {"rope_scaling", "rope_type", "yarn", "default, linear, dynamic, llama3"}},
      {"longrope",
       {{"rope_scaling", {{"type", "longrope"}, {"factor", 4}}}},
       {"rope_scaling", "type", "longrope"}},
      {"rope factor", {{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, {"factor", "got 0"}},
      {"dynamic factor", {{"rope_scaling", {{"type", "dynamic"}}}}, {"factor", "missing"}},
      {"llama3", {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}, {"low_freq_factor"}},
      {"rope of text", {{"rope_scaling", "llama3"}}, {"rope_scaling", "object"}},
      {"theta", {{"rope_theta", -1}}, {"rope_theta", "got -1"}},
      {"bias", {{"attention_bias", 1}}, {"attention_bias", "true or false"}},
      {"rotary share", {{"partial_rotary_factor", 0.5}}, {"partial_rotary_factor", "only 1"}},
      {"rotary share in rope",
       {{"rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}}},
       {"rope_parameters", "partial_rotary_factor", "only 1"}},
      {"gpt2 without sizes", {{"model_type", "gpt2"}}, {"n_layer", "missing"}},
      {"gpt_neox without eps", {{"model_type", "gpt_neox"}}, {"layer_norm_eps", "missing"}},
      {"more than a head",
       {{"model_type", "gpt_neox"}, {"rotary_pct", 1.5}},
       {"rotary_pct", "from 2 to 64", "1.5"}},
      {"an odd share",
       {{"model_type", "gpt_neox"}, {"rotary_pct", 0.05}},
       {"rotary_pct", "of 3 dimensions"}},
      {"parallel of text",
       {{"model_type", "gpt_neox"}, {"use_parallel_residual", "yes"}},
       {"use_parallel_residual", "true or false"}},
      {"gemma2 without scale", {{"model_type", "gemma2"}}, {"query_pre_attn_scalar", "missing"}},
      {"cap below 0",
       {{"model_type", "gemma2"}, {"query_pre_attn_scalar", 64}, {"final_logit_softcapping", -1}},
       {"final_logit_softcapping", "got -1"}},
      {"one rope of two",
       {{"model_type", "gemma3_text"},
        {"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}},
       {"rope_parameters", "sliding_attention", "missing"}},
      {"gemma3 with images", {{"model_type", "gemma3"}}, {"model_type", "gemma3_text"}},
      {"both ways", {{"use_bidirectional_attention", true}}, {"use_bidirectional_attention"}},
      {"cross attention", {{"add_cross_attention", true}}, {"add_cross_attention"}},
  };
}

TEST(ModelConfig, RefusesByName) {
  for (const Refused& refused : RefusedSettings()) {
    SCOPED_TRACE(refused.what);
    ExpectRefused(refused.patch, refused.parts);
  }
}

TEST(ModelConfig, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "{", "null", "\xff\xfe"}) {
    EXPECT_EQ(ParseModelConfig(text, "x").status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(ModelConfig, AMissingFolderIsNotFound) {
  EXPECT_EQ(ReadModelConfig("/nonexistent/model").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headcount::catalog
