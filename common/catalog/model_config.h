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
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headcount::catalog {

enum class NormPlacement {
  kBefore,
  kAfter
};  // of attention and MLP: pre-norm (llama) or on their output (olmo2)
enum class QkNorm {
  kNone,
  kProjection,
  kHead
};  // RMS norm of q and k over the whole projection, or per head
enum class RopeScaling { kNone, kLinear, kLlama3 };

// What all models of a family share: data, read by the engine. A new family is an entry here and
// code only where it needs new maths.
struct Family {
  std::string_view model_type;  // config.json's
  std::string_view description;
  NormPlacement norm_placement;
  bool qkv_bias;  // q, k and v always carry a bias (qwen2); llama's attention_bias is a setting of
                  // its own
  QkNorm qk_norm;
};

std::span<const Family> Families();

struct Llama3Rope {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 1;
  int64_t original_max_position_embeddings = 0;
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
  double rms_norm_eps = 0;
  double rope_theta = 0;
  RopeScaling rope_scaling = RopeScaling::kNone;
  double rope_factor = 1;       // kLinear
  Llama3Rope llama3;            // kLlama3
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
