// See tensor_names.h.

#include "worker/engine/model/tensor_names.h"

#include "absl/strings/str_cat.h"

namespace headcount::engine {
namespace {

using catalog::ModelConfig;
using catalog::NormPlacement;
using catalog::QkNorm;

class LayerSources {
 public:
  LayerSources(const ModelConfig& config, int layer, std::vector<TensorSource>& out)
      : config_(config), prefix_(absl::StrCat("model.layers.", layer, ".")), out_(out) {}

  void Norm(at::Tensor& to, const char* module, int64_t size) {
    out_.push_back({&to, {absl::StrCat(prefix_, module, ".weight")}, {{size}}});
  }

  struct Part {
    const char* module;
    int64_t rows;
  };
  void Linear(at::Tensor& weight, at::Tensor& bias, bool has_bias, int64_t columns,
              const std::vector<Part>& parts) {
    TensorSource weights{&weight, {}, {}};
    TensorSource biases{&bias, {}, {}};
    for (const Part& part : parts) {
      weights.names.push_back(absl::StrCat(prefix_, part.module, ".weight"));
      weights.shapes.push_back({part.rows, columns});
      biases.names.push_back(absl::StrCat(prefix_, part.module, ".bias"));
      biases.shapes.push_back({part.rows});
    }
    out_.push_back(std::move(weights));
    if (has_bias) out_.push_back(std::move(biases));
  }

  void All(LayerWeights& layer) {
    const int64_t hidden = config_.hidden_size;
    const int64_t inner = config_.intermediate_size;
    const int64_t q = int64_t{config_.heads} * config_.head_dim;
    const int64_t kv = int64_t{config_.kv_heads} * config_.head_dim;
    // The same module name stands for different places in the two kinds of family.
    if (config_.family->norm_placement == NormPlacement::kBefore) {
      Norm(layer.attention_norm, "input_layernorm", hidden);
      Norm(layer.mlp_norm, "post_attention_layernorm", hidden);
    } else {
      Norm(layer.attention_output_norm, "post_attention_layernorm", hidden);
      Norm(layer.mlp_output_norm, "post_feedforward_layernorm", hidden);
    }
    if (config_.family->qk_norm == QkNorm::kProjection) {
      Norm(layer.q_norm, "self_attn.q_norm", q);
      Norm(layer.k_norm, "self_attn.k_norm", kv);
    }
    Linear(layer.qkv, layer.qkv_bias, config_.attention_bias, hidden,
           {{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}});
    Linear(layer.output, layer.output_bias, config_.output_bias, q, {{"self_attn.o_proj", hidden}});
    Linear(layer.gate_up, layer.gate_up_bias, config_.mlp_bias, hidden,
           {{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}});
    Linear(layer.down, layer.down_bias, config_.mlp_bias, inner, {{"mlp.down_proj", hidden}});
  }

 private:
  const ModelConfig& config_;
  std::string prefix_;
  std::vector<TensorSource>& out_;
};

}  // namespace

std::vector<TensorSource> TensorSources(const ModelConfig& config, ModelWeights& weights) {
  const int64_t hidden = config.hidden_size;
  std::vector<TensorSource> sources;
  sources.push_back(
      {&weights.embedding, {"model.embed_tokens.weight"}, {{config.vocab_size, hidden}}});
  sources.push_back({&weights.final_norm, {"model.norm.weight"}, {{hidden}}});
  if (!config.tie_word_embeddings) {
    sources.push_back({&weights.head, {"lm_head.weight"}, {{config.vocab_size, hidden}}});
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    LayerSources(config, layer, sources).All(weights.layers[static_cast<size_t>(layer)]);
  }
  return sources;
}

bool IsIgnoredTensor(const ModelConfig& config, std::string_view name) {
  if (name == "lm_head.weight") return config.tie_word_embeddings;
  return name.ends_with(".self_attn.rotary_emb.inv_freq");
}

}  // namespace headcount::engine
