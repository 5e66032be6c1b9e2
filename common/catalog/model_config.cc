// Reads config.json the way transformers does, and refuses what the engine would get wrong. See
// model_config.h.

#include "common/catalog/model_config.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

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

// One JSON object of a config.json; its methods read settings and say which one is wrong.
class Settings {
 public:
  Settings(const Json& json, std::string_view where) : json_(json), where_(where) {}

  // The value, or null where it is absent or null.
  const Json& Get(const char* key) const {
    static const Json kNull;
    const auto found = json_.find(key);
    return found == json_.end() ? kNull : *found;
  }
  bool Has(const char* key) const { return !Get(key).is_null(); }

  absl::Status Refuse(const char* key, const std::string& message) const {
    const Json& value = Get(key);
    const std::string shown =
        value.is_null() ? "missing" : value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          where_, ": ", key, ": ", message, " (got ", shown.substr(0, 200), ")")),
                      "UNSUPPORTED_MODEL");
  }

  absl::StatusOr<int64_t> Integer(const char* key, int64_t low, int64_t high,
                                  std::optional<int64_t> missing = std::nullopt) const {
    const Json& value = Get(key);
    if (value.is_null() && missing.has_value()) return *missing;
    const bool fits = value.is_number_integer() && !TooLarge(value);
    if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high) {
      return Refuse(key, absl::StrCat("must be an integer from ", low, " to ", high));
    }
    return value.get<int64_t>();
  }

  // A finite number greater than 0.
  absl::StatusOr<double> Positive(const char* key,
                                  std::optional<double> missing = std::nullopt) const {
    const Json& value = Get(key);
    if (value.is_null() && missing.has_value()) return *missing;
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
      return Refuse(key, "must be a number greater than 0");
    }
    return value.get<double>();
  }

  absl::StatusOr<bool> Flag(const char* key, bool missing) const {
    const Json& value = Get(key);
    if (value.is_null()) return missing;
    if (!value.is_boolean()) return Refuse(key, "must be true or false");
    return value.get<bool>();
  }

  absl::StatusOr<std::string> Text(const char* key, const char* missing) const {
    const Json& value = Get(key);
    if (value.is_null()) return std::string(missing);
    if (!value.is_string()) return Refuse(key, "must be a string");
    return value.get<std::string>();
  }

  // A token id; of a list of them the first.
  absl::StatusOr<std::optional<int64_t>> TokenId(const char* key) const {
    const Json& value = Get(key);
    const Json& id = value.is_array() && !value.empty() ? value.front() : value;
    if (id.is_null() || (value.is_array() && value.empty())) return std::nullopt;
    if (!id.is_number_integer() || TooLarge(id)) return Refuse(key, "must be a token id");
    return id.get<int64_t>();
  }

 private:
  static bool TooLarge(const Json& value) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  }

  const Json& json_;
  std::string where_;
};

absl::StatusOr<const Family*> FindFamily(const Settings& settings) {
  HC_ASSIGN_OR_RETURN(const std::string type, settings.Text("model_type", ""));
  std::string known;
  for (const Family& family : Families()) {
    if (family.model_type == type) return &family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(family.model_type));
  }
  return settings.Refuse("model_type", "is not supported; supported: " + known);
}

absl::Status ReadSizes(const Settings& settings, ModelConfig& config) {
  HC_ASSIGN_OR_RETURN(const int64_t layers, settings.Integer("num_hidden_layers", 1, kMaxLayers));
  HC_ASSIGN_OR_RETURN(const int64_t heads, settings.Integer("num_attention_heads", 1, kMaxHeads));
  HC_ASSIGN_OR_RETURN(const int64_t kv_heads,
                      settings.Integer("num_key_value_heads", 1, kMaxHeads, heads));
  HC_ASSIGN_OR_RETURN(const int64_t hidden, settings.Integer("hidden_size", 1, kMaxSize));
  HC_ASSIGN_OR_RETURN(const int64_t inner, settings.Integer("intermediate_size", 1, kMaxSize));
  HC_ASSIGN_OR_RETURN(config.vocab_size, settings.Integer("vocab_size", 1, kMaxVocabulary));
  HC_ASSIGN_OR_RETURN(config.max_position_embeddings,
                      settings.Integer("max_position_embeddings", 1, kMaxPositions));
  if (heads % kv_heads != 0) {
    return settings.Refuse("num_key_value_heads",
                           absl::StrCat("must divide num_attention_heads, which is ", heads));
  }
  if (!settings.Has("head_dim") && hidden % heads != 0) {
    return settings.Refuse("hidden_size", absl::StrCat("must be a multiple of num_attention_heads, "
                                                       "which is ",
                                                       heads, ", because head_dim is not given"));
  }
  HC_ASSIGN_OR_RETURN(const int64_t head_dim,
                      settings.Integer("head_dim", 2, kMaxHeadDim, hidden / heads));
  if (head_dim % 2 != 0 || head_dim < 2 || head_dim > kMaxHeadDim) {
    return settings.Refuse(settings.Has("head_dim") ? "head_dim" : "hidden_size",
                           absl::StrCat("gives heads of ", head_dim,
                                        " dimensions; rotary embedding needs an even number from "
                                        "2 to ",
                                        kMaxHeadDim));
  }
  config.layers = static_cast<int>(layers);
  config.heads = static_cast<int>(heads);
  config.kv_heads = static_cast<int>(kv_heads);
  config.head_dim = static_cast<int>(head_dim);
  config.hidden_size = static_cast<int>(hidden);
  config.intermediate_size = static_cast<int>(inner);
  return absl::OkStatus();
}

absl::Status ReadRopeScaling(const Settings& rope, ModelConfig& config) {
  const char* key = rope.Has("rope_type") ? "rope_type" : "type";
  HC_ASSIGN_OR_RETURN(const std::string type, rope.Text(key, "default"));
  if (type == "default") return absl::OkStatus();
  if (type == "linear") {
    config.rope_scaling = RopeScaling::kLinear;
    HC_ASSIGN_OR_RETURN(config.rope_factor, rope.Positive("factor"));
    return absl::OkStatus();
  }
  if (type != "llama3") {
    return rope.Refuse(key, "is not supported; supported: default, linear, llama3");
  }
  config.rope_scaling = RopeScaling::kLlama3;
  Llama3Rope& llama3 = config.llama3;
  HC_ASSIGN_OR_RETURN(llama3.factor, rope.Positive("factor"));
  HC_ASSIGN_OR_RETURN(llama3.low_freq_factor, rope.Positive("low_freq_factor"));
  HC_ASSIGN_OR_RETURN(llama3.high_freq_factor, rope.Positive("high_freq_factor"));
  HC_ASSIGN_OR_RETURN(llama3.original_max_position_embeddings,
                      rope.Integer("original_max_position_embeddings", 1, kMaxPositions));
  if (llama3.high_freq_factor <= llama3.low_freq_factor) {
    return rope.Refuse("high_freq_factor", "must be greater than low_freq_factor");
  }
  return absl::OkStatus();
}

// `rope_theta` and `rope_scaling`, or the one object `rope_parameters` of newer files.
absl::Status ReadRope(const Settings& settings, std::string_view where, ModelConfig& config) {
  constexpr double kDefaultTheta = 10000;  // transformers' for all three families
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json& object = settings.Get(key);
    if (object.is_null()) continue;
    if (!object.is_object()) return settings.Refuse(key, "must be an object");
    const Settings rope(object, absl::StrCat(std::string(where), ": ", key));
    HC_RETURN_IF_ERROR(ReadRopeScaling(rope, config));
    if (rope.Has("partial_rotary_factor") && rope.Get("partial_rotary_factor") != 1) {
      return rope.Refuse("partial_rotary_factor", "only 1 is supported");
    }
    if (rope.Has("rope_theta")) {
      HC_ASSIGN_OR_RETURN(config.rope_theta, rope.Positive("rope_theta"));
      return absl::OkStatus();
    }
    break;
  }
  HC_ASSIGN_OR_RETURN(config.rope_theta, settings.Positive("rope_theta", kDefaultTheta));
  return absl::OkStatus();
}

// Settings that change the maths and that no family here implements.
absl::Status RefuseUnsupported(const Settings& settings) {
  HC_ASSIGN_OR_RETURN(const std::string activation, settings.Text("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish") {
    return settings.Refuse("hidden_act", "only silu is supported");
  }
  HC_ASSIGN_OR_RETURN(const bool sliding, settings.Flag("use_sliding_window", false));
  if (sliding) {
    return settings.Refuse("use_sliding_window", "sliding windows are not supported; only false");
  }
  if (const Json& types = settings.Get("layer_types"); types.is_array()) {
    for (const Json& type : types) {
      if (type != "full_attention") {
        return settings.Refuse("layer_types", "only full_attention is supported");
      }
    }
  }
  for (const char* key : {"quantization_config", "attn_logit_softcapping",
                          "final_logit_softcapping", "num_local_experts", "num_experts"}) {
    if (settings.Has(key)) return settings.Refuse(key, "is not supported; leave it out");
  }
  if (settings.Has("partial_rotary_factor") && settings.Get("partial_rotary_factor") != 1) {
    return settings.Refuse("partial_rotary_factor", "only 1 is supported");
  }
  return absl::OkStatus();
}

absl::Status ReadBiases(const Settings& settings, ModelConfig& config) {
  config.attention_bias = config.family->qkv_bias;
  if (!config.family->qkv_bias) {
    HC_ASSIGN_OR_RETURN(config.attention_bias, settings.Flag("attention_bias", false));
    config.output_bias = config.attention_bias;
  }
  if (config.model_type == "llama") {
    HC_ASSIGN_OR_RETURN(config.mlp_bias, settings.Flag("mlp_bias", false));
  }
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
  config.model_type = std::string(config.family->model_type);
  HC_RETURN_IF_ERROR(RefuseUnsupported(settings));
  HC_RETURN_IF_ERROR(ReadSizes(settings, config));
  HC_RETURN_IF_ERROR(ReadRope(settings, where, config));
  HC_RETURN_IF_ERROR(ReadBiases(settings, config));
  HC_ASSIGN_OR_RETURN(config.rms_norm_eps, settings.Positive("rms_norm_eps"));
  HC_ASSIGN_OR_RETURN(config.tie_word_embeddings, settings.Flag("tie_word_embeddings", false));
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
