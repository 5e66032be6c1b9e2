// Reads config.json the way transformers does, and refuses what the engine would get wrong. See
// model_config.h.

#include "common/catalog/model_config.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/catalog/config_attention.h"
#include "common/catalog/settings.h"

namespace headcount::catalog {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxSize = 1 << 20;
constexpr int64_t kMaxVocabulary = 1 << 24;
constexpr int64_t kMaxPositions = 1 << 24;

// config.json's names of activations; several names of one function where they differ in how it is
// computed alone.
constexpr std::array<std::pair<std::string_view, Activation>, 7> kActivations = {{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
}};

absl::StatusOr<const Family*> FindFamily(const Settings& settings) {
  HC_ASSIGN_OR_RETURN(const std::string type, settings.Text("model_type", ""));
  std::string known;
  for (const Family& family : Families()) {
    if (family.model_type == type) return &family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(family.model_type));
  }
  return settings.Refuse("model_type", "is not supported; supported: " + known);
}

absl::StatusOr<int> Size(const Settings& settings, std::string_view key, int64_t most,
                         std::optional<int64_t> missing = std::nullopt) {
  HC_ASSIGN_OR_RETURN(const int64_t size, settings.Integer(key, 1, most, missing));
  return static_cast<int>(size);
}

absl::Status ReadHeadDim(const Settings& settings, ModelConfig& config) {
  const SettingNames& names = config.family->settings;
  int64_t missing = config.family->head_dim_default;
  if (!settings.Has("head_dim") && missing == 0) {
    if (config.hidden_size % config.heads != 0) {
      return settings.Refuse(
          names.hidden_size,
          absl::StrCat("must be a multiple of ", std::string(names.heads), ", which is ",
                       config.heads, ", because head_dim is not given"));
    }
    missing = config.hidden_size / config.heads;
  }
  HC_ASSIGN_OR_RETURN(const int64_t head_dim,
                      settings.Integer("head_dim", 2, kMaxHeadDim, missing));
  const bool even = head_dim % 2 == 0 || config.family->learned_positions;
  if (!even || head_dim < 2 || head_dim > kMaxHeadDim) {
    return settings.Refuse(settings.Has("head_dim") ? "head_dim" : names.hidden_size,
                           absl::StrCat("gives heads of ", head_dim,
                                        " dimensions; rotary embedding needs an even number from "
                                        "2 to ",
                                        kMaxHeadDim));
  }
  config.head_dim = static_cast<int>(head_dim);
  return absl::OkStatus();
}

absl::Status ReadSizes(const Settings& settings, ModelConfig& config) {
  const SettingNames& names = config.family->settings;
  HC_ASSIGN_OR_RETURN(config.layers, Size(settings, names.layers, kMaxLayers));
  HC_ASSIGN_OR_RETURN(config.heads, Size(settings, names.heads, kMaxHeads));
  config.kv_heads = config.heads;
  if (!names.kv_heads.empty()) {
    HC_ASSIGN_OR_RETURN(config.kv_heads, Size(settings, names.kv_heads, kMaxHeads, config.heads));
  }
  if (config.heads % config.kv_heads != 0) {
    return settings.Refuse(names.kv_heads, absl::StrCat("must divide ", std::string(names.heads),
                                                        ", which is ", config.heads));
  }
  HC_ASSIGN_OR_RETURN(config.hidden_size, Size(settings, names.hidden_size, kMaxSize));
  std::optional<int64_t> inner;
  if (!config.family->gated_mlp()) inner = int64_t{4} * config.hidden_size;
  HC_ASSIGN_OR_RETURN(config.intermediate_size, Size(settings, names.inner_size, kMaxSize, inner));
  HC_ASSIGN_OR_RETURN(config.vocab_size, settings.Integer("vocab_size", 1, kMaxVocabulary));
  HC_ASSIGN_OR_RETURN(config.max_position_embeddings,
                      settings.Integer(names.positions, 1, kMaxPositions));
  return ReadHeadDim(settings, config);
}

absl::Status ReadActivation(const Settings& settings, ModelConfig& config) {
  const std::string_view key = config.family->settings.activation;
  HC_ASSIGN_OR_RETURN(const std::string name, settings.Text(key, ""));
  config.activation = config.family->activation;
  if (name.empty()) return absl::OkStatus();
  std::string known;
  for (const auto& [known_name, activation] : kActivations) {
    if (name == known_name) {
      config.activation = activation;
      return absl::OkStatus();
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(known_name));
  }
  return settings.Refuse(key, "is not supported; supported: " + known);
}

// Settings that change the maths and that no family here implements.
absl::Status RefuseUnsupported(const Settings& settings) {
  for (const char* key : {"quantization_config", "num_local_experts", "num_experts"}) {
    if (settings.Has(key)) return settings.Refuse(key, "is not supported; leave it out");
  }
  for (const char* key : {"use_bidirectional_attention", "add_cross_attention"}) {
    HC_ASSIGN_OR_RETURN(const bool asked, settings.Flag(key, false));
    if (asked) return settings.Refuse(key, "only false is supported");
  }
  return absl::OkStatus();
}

absl::Status ReadBiases(const Settings& settings, ModelConfig& config) {
  const Family& family = *config.family;
  const auto read = [&](Biases biases, const char* key) -> absl::StatusOr<bool> {
    if (biases != Biases::kSetting) return biases == Biases::kAlways;
    return settings.Flag(key, family.bias_default);
  };
  HC_ASSIGN_OR_RETURN(config.attention_bias, read(family.qkv_bias, "attention_bias"));
  HC_ASSIGN_OR_RETURN(config.output_bias, read(family.output_bias, "attention_bias"));
  HC_ASSIGN_OR_RETURN(config.mlp_bias, read(family.mlp_bias, "mlp_bias"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json, std::string_view where) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(std::string(where), ": is not a JSON object")),
        "UNSUPPORTED_MODEL");
  }
  const Settings settings(root, where);
  ModelConfig config;
  HC_ASSIGN_OR_RETURN(config.family, FindFamily(settings));
  const Family& family = *config.family;
  config.model_type = std::string(family.model_type);
  HC_RETURN_IF_ERROR(RefuseUnsupported(settings));
  HC_RETURN_IF_ERROR(ReadSizes(settings, config));
  HC_RETURN_IF_ERROR(ReadAttention(settings, config));
  HC_RETURN_IF_ERROR(ReadActivation(settings, config));
  HC_RETURN_IF_ERROR(ReadBiases(settings, config));
  if (family.parallel_blocks) {
    HC_ASSIGN_OR_RETURN(config.parallel_blocks, settings.Flag("use_parallel_residual", true));
  }
  HC_ASSIGN_OR_RETURN(config.norm_eps, settings.Positive(family.settings.norm_eps));
  HC_ASSIGN_OR_RETURN(config.tie_word_embeddings,
                      settings.Flag("tie_word_embeddings", family.tied_default));
  HC_ASSIGN_OR_RETURN(config.torch_dtype,
                      settings.Text(settings.Has("torch_dtype") ? "torch_dtype" : "dtype", ""));
  HC_ASSIGN_OR_RETURN(config.bos_token_id, settings.TokenId("bos_token_id"));
  HC_ASSIGN_OR_RETURN(config.eos_token_id, settings.TokenId("eos_token_id"));
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  HC_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMaxConfigBytes));
  return ParseModelConfig(json, path);
}

}  // namespace headcount::catalog
