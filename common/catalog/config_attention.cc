// See config_attention.h.

#include "common/catalog/config_attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace headcount::catalog {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxPositions = 1 << 24;
constexpr const char kFull[] = "full_attention";
constexpr const char kSliding[] = "sliding_attention";

absl::Status ReadScaling(const Settings& rope, RopeSettings& out) {
  const char* key = rope.Has("rope_type") ? "rope_type" : "type";
  HC_ASSIGN_OR_RETURN(const std::string type, rope.Text(key, "default"));
  if (type == "default") return absl::OkStatus();
  if (type == "dynamic") return rope.Positive("factor").status();
  if (type == "linear") {
    out.scaling = RopeScaling::kLinear;
    HC_ASSIGN_OR_RETURN(out.factor, rope.Positive("factor"));
    return absl::OkStatus();
  }
  if (type != "llama3") {
    return rope.Refuse(key, "is not supported; supported: default, linear, dynamic, llama3");
  }
  out.scaling = RopeScaling::kLlama3;
  Llama3Rope& llama3 = out.llama3;
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

absl::Status ReadRotaryDim(const Settings& settings, std::string_view key, ModelConfig& config) {
  const double missing = config.family->partial_rotary_default;
  HC_ASSIGN_OR_RETURN(const double share, settings.Positive(key, missing));
  if (missing == 1 && share != 1) return settings.Refuse(key, "only 1 is supported");
  config.rotary_dim = static_cast<int>(share * config.head_dim);
  if (share > 1 || config.rotary_dim < 2 || config.rotary_dim % 2 != 0) {
    return settings.Refuse(
        key, absl::StrCat("gives rotary embedding of ", config.rotary_dim,
                          " dimensions; it needs an even number from 2 to ", config.head_dim));
  }
  return absl::OkStatus();
}

// One object of `rope_parameters` or `rope_scaling`; without a theta of its own it leaves out's.
absl::Status ReadRopeObject(const Settings& rope, ModelConfig& config, RopeSettings& out) {
  HC_RETURN_IF_ERROR(ReadScaling(rope, out));
  if (rope.Has("partial_rotary_factor")) {
    HC_RETURN_IF_ERROR(ReadRotaryDim(rope, "partial_rotary_factor", config));
  }
  HC_ASSIGN_OR_RETURN(out.theta, rope.Positive("rope_theta", out.theta));
  return absl::OkStatus();
}

// `rope_theta` and `rope_scaling`, or the one object `rope_parameters` of newer files, which holds
// one object for each kind of layer where they differ.
absl::Status ReadRope(const Settings& settings, ModelConfig& config) {
  const Family& family = *config.family;
  const bool has_local = family.local_rope_theta_default > 0;
  const char* theta = settings.Has("rotary_emb_base") ? "rotary_emb_base" : "rope_theta";
  HC_ASSIGN_OR_RETURN(config.rope.theta, settings.Positive(theta, family.rope_theta_default));
  if (has_local) {
    HC_ASSIGN_OR_RETURN(config.local_rope.theta,
                        settings.Positive("rope_local_base_freq", family.local_rope_theta_default));
  }
  const char* share = settings.Has("rotary_pct") ? "rotary_pct" : "partial_rotary_factor";
  HC_RETURN_IF_ERROR(ReadRotaryDim(settings, share, config));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json& object = settings.Get(key);
    if (object.is_null()) continue;
    if (!object.is_object()) return settings.Refuse(key, "must be an object");
    const std::string where = absl::StrCat(settings.where(), ": ", key);
    if (!has_local || (!object.contains(kFull) && !object.contains(kSliding))) {
      return ReadRopeObject(Settings(object, where), config, config.rope);
    }
    for (const auto& [kind, out] :
         {std::pair{kFull, &config.rope}, std::pair{kSliding, &config.local_rope}}) {
      const auto found = object.find(kind);
      if (found == object.end() || !found->is_object()) {
        return Settings(object, where).Refuse(kind, "must be an object");
      }
      HC_RETURN_IF_ERROR(
          ReadRopeObject(Settings(*found, absl::StrCat(where, ": ", kind)), config, *out));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// The window that layers with one have; 0: no layer has one.
absl::StatusOr<int64_t> ReadWindow(const Settings& settings, const Family& family) {
  if (family.windows == Windows::kNone) {
    // Families without windows ignore the setting in transformers too, but a file that asks for
    // one expects something else.
    HC_ASSIGN_OR_RETURN(const bool used, settings.Flag("use_sliding_window", false));
    if (used) return settings.Refuse("use_sliding_window", "only false is supported");
    return 0;
  }
  if (family.windows == Windows::kUpperLayers) {
    HC_ASSIGN_OR_RETURN(const bool used, settings.Flag("use_sliding_window", false));
    if (!used) return 0;
  }
  constexpr const char kKey[] = "sliding_window";
  if (settings.Lacks(kKey)) return family.window_default;
  if (!settings.Has(kKey)) return 0;
  return settings.Integer(kKey, 1, kMaxPositions);
}

bool HasWindow(const Family& family, int layer, int64_t first_or_pattern) {
  switch (family.windows) {
    case Windows::kNone:
      return false;
    case Windows::kEveryLayer:
      return true;
    case Windows::kUpperLayers:
      return layer >= first_or_pattern;
    case Windows::kPattern:
      return (layer + 1) % first_or_pattern != 0;
  }
  return false;
}

absl::Status ReadWindows(const Settings& settings, ModelConfig& config) {
  const Family& family = *config.family;
  HC_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(settings, family));
  int64_t first_or_pattern = 0;
  if (family.windows == Windows::kUpperLayers) {
    HC_ASSIGN_OR_RETURN(first_or_pattern,
                        settings.Integer("max_window_layers", 0, kMaxPositions, 28));
  } else if (family.windows == Windows::kPattern) {
    HC_ASSIGN_OR_RETURN(first_or_pattern, settings.Integer("sliding_window_pattern", 1,
                                                           kMaxPositions, family.pattern_default));
  }
  const Json& types = settings.Get("layer_types");
  if (!types.is_null() &&
      (!types.is_array() || types.size() != static_cast<size_t>(config.layers))) {
    return settings.Refuse("layer_types",
                           absl::StrCat("must be a list of ", config.layers, " names"));
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    bool sliding = HasWindow(family, layer, first_or_pattern) && window > 0;
    if (!types.is_null()) {
      const Json& type = types[static_cast<size_t>(layer)];
      const bool known = type == kFull || (type == kSliding && window > 0);
      if (!known) {
        return settings.Refuse("layer_types",
                               absl::StrCat("layer ", layer, " may be full_attention",
                                            window > 0 ? " or sliding_attention" : " only"));
      }
      sliding = type == kSliding;
    }
    LayerAttention& attention = config.attention[static_cast<size_t>(layer)];
    attention.window = sliding ? window : 0;
    attention.local_rope = sliding && family.local_rope_theta_default > 0;
  }
  return absl::OkStatus();
}

absl::Status ReadScales(const Settings& settings, ModelConfig& config) {
  const Family& family = *config.family;
  double scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  bool by_layer = false;
  if (family.query_scalar) {
    HC_ASSIGN_OR_RETURN(const double scalar, settings.Positive("query_pre_attn_scalar"));
    scale = 1 / std::sqrt(scalar);
  }
  if (family.scale_settings) {
    HC_ASSIGN_OR_RETURN(const bool scaled, settings.Flag("scale_attn_weights", true));
    if (!scaled) scale = 1;
    HC_ASSIGN_OR_RETURN(by_layer, settings.Flag("scale_attn_by_inverse_layer_idx", false));
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    config.attention[static_cast<size_t>(layer)].scale = by_layer ? scale / (layer + 1) : scale;
  }
  if (family.scaled_embedding) {
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ReadSoftCap(const Settings& settings, const char* key, bool supported,
                                   double missing) {
  if (settings.Lacks(key)) return missing;
  if (!settings.Has(key)) return 0;
  if (!supported) return settings.Refuse(key, "is not supported; leave it out");
  return settings.Positive(key);
}

}  // namespace

absl::Status ReadAttention(const Settings& settings, ModelConfig& config) {
  const Family& family = *config.family;
  config.attention.resize(static_cast<size_t>(config.layers));
  if (!family.learned_positions) HC_RETURN_IF_ERROR(ReadRope(settings, config));
  HC_RETURN_IF_ERROR(ReadWindows(settings, config));
  HC_RETURN_IF_ERROR(ReadScales(settings, config));
  HC_ASSIGN_OR_RETURN(config.attention_soft_cap,
                      ReadSoftCap(settings, "attn_logit_softcapping", family.soft_caps,
                                  family.attention_soft_cap_default));
  HC_ASSIGN_OR_RETURN(config.logit_soft_cap,
                      ReadSoftCap(settings, "final_logit_softcapping", family.soft_caps,
                                  family.logit_soft_cap_default));
  return absl::OkStatus();
}

}  // namespace headcount::catalog
