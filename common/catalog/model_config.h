// A checkpoint's config.json, read and checked against its model family, and what follows from it.
// Server and worker use the same code: what this refuses is refused when a job is created. Pure
// functions, no state.
//
// Errors: NOT_FOUND (no folder or config.json), FAILED_PRECONDITION naming the setting, its value
// and what is supported: an unknown model_type, a known one with a setting that is not implemented,
// a hidden size that its heads do not divide where the family derives head_dim, and so on. Never
// silently wrong.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/family.h"

namespace headcount::catalog {

// transformers' `dynamic` is kNone here: it changes nothing up to max_position_embeddings, and
// longer inputs are refused.
enum class RopeScaling { kNone, kLinear, kLlama3 };

struct Llama3Rope {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 1;
  int64_t original_max_position_embeddings = 0;
};

struct RopeSettings {
  double theta = 0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;  // kLinear
  Llama3Rope llama3;  // kLlama3
};

// What may differ from layer to layer.
struct LayerAttention {
  int64_t window = 0;  // a token sees this many keys, its own included; 0: all
  bool local_rope = false;
  double scale = 1;  // of q.k
};

struct ModelConfig {
  const Family* family = nullptr;
  std::string model_type;
  int layers = 0;
  int heads = 0;     // query heads
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double norm_eps = 0;
  Activation activation = Activation::kSilu;
  RopeSettings rope;
  RopeSettings local_rope;
  int rotary_dim = 0;                     // of a head, the first ones
  std::vector<LayerAttention> attention;  // one a layer
  double attention_soft_cap = 0;          // c tanh(s q.k / c); 0: none
  double logit_soft_cap = 0;              // likewise, of the model's logits
  double embedding_scale = 1;
  bool parallel_blocks = false;
  bool attention_bias = false;  // on q, k and v
  bool output_bias = false;     // on W_O
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  std::string torch_dtype;  // as written: float32, bfloat16, float16 or empty
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> eos_token_id;

  int group_size() const { return heads / kv_heads; }
  int kv_head_of(int head) const { return head / group_size(); }
};

// Reads and checks DIRECTORY/config.json.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory);
// The same from the text of a config.json; `where` names it in errors.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json, std::string_view where);

}  // namespace headcount::catalog
