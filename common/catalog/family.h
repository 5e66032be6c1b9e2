// What all models of a family share, as data: the engine, the reader of config.json and the check
// of a checkpoint's tensors follow it. A new family is an entry in families.cc, and code only where
// it needs new maths. Constants, no state.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headcount::catalog {

// Of attention and of the MLP: on their input (llama), on their output (olmo2), or on both (gemma).
enum class NormPlacement { kBefore, kAfter, kAround };

enum class NormKind {
  kRms,
  kRmsPlusOne,  // checkpoints hold the weight less 1
  kLayer,       // with the mean taken off, and a bias
};

// RMS norm of q and k: over the whole projection, or over each head with one weight for all heads.
enum class QkNorm { kNone, kProjection, kHead };

enum class Activation { kSilu, kGelu, kGeluTanh, kRelu };

// Where a projection has biases: never, always, or as config.json says.
enum class Biases { kNone, kAlways, kSetting };

// Which layers see a sliding window of keys instead of all.
enum class Windows {
  kNone,
  kEveryLayer,   // where sliding_window is set (mistral)
  kUpperLayers,  // where use_sliding_window is set, from layer max_window_layers on (qwen)
  kPattern,      // all but every sliding_window_pattern-th (gemma)
};

// How q, k and v lie in a checkpoint.
enum class QkvLayout {
  kSeparate,  // three tensors
  kByHead,    // one tensor; for each head its q, k and v (gpt_neox)
  kStacked,   // one tensor; all of q, then k, then v (gpt2)
};

// The names under which config.json says a size. Empty: the family does not have the setting.
struct SettingNames {
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view hidden_size = "hidden_size";
  std::string_view inner_size = "intermediate_size";
  std::string_view positions = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
};

// The modules of a checkpoint, without their ".weight" and ".bias". Empty: the family does not have
// the module.
struct ModuleNames {
  std::string_view model = "model.";  // before all but the head; checkpoints may leave it out
  std::string_view embedding = "embed_tokens";
  std::string_view positions = "";
  std::string_view final_norm = "norm";
  std::string_view head = "lm_head";
  std::string_view layers = "layers.";
  // Of a layer, after its number:
  std::string_view attention_norm = "input_layernorm";
  std::string_view attention_output_norm = "";
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view mlp_output_norm = "";
  std::string_view q = "self_attn.q_proj";  // or all three, where they are one tensor
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view q_norm = "";
  std::string_view k_norm = "";
  std::string_view output = "self_attn.o_proj";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
  bool transposed = false;  // matrices of layers are [inputs, outputs]
};

struct Family {
  std::string_view model_type;  // config.json's
  std::string_view description;
  NormPlacement norm_placement = NormPlacement::kBefore;
  NormKind norm_kind = NormKind::kRms;
  QkNorm qk_norm = QkNorm::kNone;
  Biases qkv_bias = Biases::kNone;            // kSetting: attention_bias
  Biases output_bias = Biases::kNone;         // kSetting: attention_bias
  Biases mlp_bias = Biases::kNone;            // kSetting: mlp_bias
  bool bias_default = false;                  // of the setting
  Activation activation = Activation::kSilu;  // where config.json names none
  Windows windows = Windows::kNone;
  int64_t window_default = 0;    // where config.json has no sliding_window; 0: none
  int64_t pattern_default = 0;   // kPattern, where config.json has no sliding_window_pattern
  int64_t head_dim_default = 0;  // where config.json has no head_dim; 0: hidden size by heads
  double rope_theta_default = 10000;
  double local_rope_theta_default = 0;  // of layers with a window, where they have a rope of their
                                        // own; 0: they do not
  double partial_rotary_default = 1;    // the share of a head's dimensions that is rotated; 1: may
                                        // not be set either
  bool learned_positions = false;       // added to the embedding, instead of rope
  bool parallel_blocks = false;  // attention and MLP read the same input, where config.json says so
  bool soft_caps = false;        // attn_logit_softcapping, final_logit_softcapping
  double attention_soft_cap_default = 0;  // where config.json leaves them out
  double logit_soft_cap_default = 0;
  bool query_scalar = false;      // query_pre_attn_scalar in the place of head_dim
  bool scaled_embedding = false;  // by the square root of the hidden size
  bool tied_default = false;      // tie_word_embeddings, where config.json leaves it out
  bool harness_bos = false;  // lm-evaluation-harness puts a BOS in front of what it encodes, as it
                             // does for every model_type with "gemma" in it
  bool scale_settings = false;  // scale_attn_weights, scale_attn_by_inverse_layer_idx
  QkvLayout qkv_layout = QkvLayout::kSeparate;
  SettingNames settings = {};
  ModuleNames modules = {};

  bool gated_mlp() const { return !modules.gate.empty(); }
};

std::span<const Family> Families();

}  // namespace headcount::catalog
