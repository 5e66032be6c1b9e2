// See checkpoint_tensors.h.

#include "common/catalog/checkpoint_tensors.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::catalog {
namespace {

constexpr std::string_view kIgnored[] = {
    "rotary_emb.inv_freq",  // tables
    ".attn.bias",          ".attn.masked_bias",
    ".attention.bias",     ".attention.masked_bias",  // causal masks
};

struct Rows {
  std::string_view module;
  int64_t rows;
};

class Sources {
 public:
  Sources(const ModelConfig& config, std::string prefix)
      : config_(config), names_(config.family->modules), prefix_(std::move(prefix)) {}

  std::vector<TensorSource> All() {
    const int64_t hidden = config_.hidden_size;
    Matrix(Part::kEmbedding, prefix_, false, hidden, {{names_.embedding, config_.vocab_size}});
    if (config_.family->learned_positions) {
      Matrix(Part::kPositions, prefix_, false, hidden,
             {{names_.positions, config_.max_position_embeddings}});
    }
    Norm(Part::kFinalNorm, prefix_, names_.final_norm, hidden);
    if (!config_.tie_word_embeddings) {
      Matrix(Part::kHead, "", false, hidden, {{names_.head, config_.vocab_size}});
    }
    for (layer_ = 0; layer_ < config_.layers; ++layer_) {
      Layer(absl::StrCat(prefix_, std::string(names_.layers), layer_, "."));
    }
    return std::move(out_);
  }

 private:
  void Layer(const std::string& at) {
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    const int64_t q = int64_t{config_.heads} * config_.head_dim;
    const int64_t kv = int64_t{config_.kv_heads} * config_.head_dim;
    const bool by_head = config_.family->qk_norm == QkNorm::kHead;
    Norm(Part::kAttentionNorm, at, names_.attention_norm, hidden);
    Norm(Part::kAttentionOutputNorm, at, names_.attention_output_norm, hidden);
    Norm(Part::kMlpNorm, at, names_.mlp_norm, hidden);
    Norm(Part::kMlpOutputNorm, at, names_.mlp_output_norm, hidden);
    Norm(Part::kQNorm, at, names_.q_norm, by_head ? config_.head_dim : q);
    Norm(Part::kKNorm, at, names_.k_norm, by_head ? config_.head_dim : kv);

    const size_t first = out_.size();
    if (config_.family->qkv_layout == QkvLayout::kSeparate) {
      Matrix(Part::kQkv, at, config_.attention_bias, hidden,
             {{names_.q, q}, {names_.k, kv}, {names_.v, kv}});
    } else {
      Matrix(Part::kQkv, at, config_.attention_bias, hidden, {{names_.q, q + 2 * kv}});
    }
    Matrix(Part::kOutput, at, config_.output_bias, q, {{names_.output, hidden}});
    if (config_.family->gated_mlp()) {
      Matrix(Part::kGateUp, at, config_.mlp_bias, hidden,
             {{names_.gate, inner}, {names_.up, inner}});
    } else {
      Matrix(Part::kGateUp, at, config_.mlp_bias, hidden, {{names_.up, inner}});
    }
    Matrix(Part::kDown, at, config_.mlp_bias, inner, {{names_.down, hidden}});

    for (size_t i = first; i < out_.size(); ++i) {
      TensorSource& source = out_[i];
      if (source.part == Part::kQkv && config_.family->qkv_layout == QkvLayout::kByHead) {
        source.stored = Stored::kByHead;
      } else if (names_.transposed && !source.bias) {
        source.stored = Stored::kTransposed;
        for (std::vector<int64_t>& shape : source.shapes) std::swap(shape[0], shape[1]);
      }
    }
  }

  void Norm(Part part, const std::string& at, std::string_view module, int64_t size) {
    if (module.empty()) return;
    const std::string name = at + std::string(module);
    out_.push_back({part, layer_, false, {name + ".weight"}, {{size}}});
    if (config_.family->norm_kind == NormKind::kLayer) {
      out_.push_back({part, layer_, true, {name + ".bias"}, {{size}}});
    }
  }

  void Matrix(Part part, const std::string& at, bool has_bias, int64_t columns,
              const std::vector<Rows>& all) {
    TensorSource weight{part, layer_, false, {}, {}}, bias{part, layer_, true, {}, {}};
    for (const Rows& rows : all) {
      const std::string name = at + std::string(rows.module);
      weight.names.push_back(name + ".weight");
      weight.shapes.push_back({rows.rows, columns});
      bias.names.push_back(name + ".bias");
      bias.shapes.push_back({rows.rows});
    }
    out_.push_back(std::move(weight));
    if (has_bias) out_.push_back(std::move(bias));
  }

  const ModelConfig& config_;
  const ModuleNames& names_;
  std::string prefix_;
  int layer_ = 0;
  std::vector<TensorSource> out_;
};

absl::Status Refuse(const std::string& message) {
  return WithReason(absl::FailedPreconditionError(message), "CHECKPOINT_MISMATCH");
}

absl::Status CheckTensor(const Checkpoint& checkpoint, const std::string& name,
                         const std::vector<int64_t>& shape) {
  const auto found = checkpoint.tensors.find(name);
  const std::string expected = absl::StrJoin(shape, " x ");
  if (found == checkpoint.tensors.end()) {
    return Refuse(absl::StrCat("tensor ", name, " is missing; config.json makes it ", expected));
  }
  const TensorInfo& info = found->second.info;
  if (info.shape != shape) {
    return Refuse(absl::StrCat("tensor ", name, " is ", absl::StrJoin(info.shape, " x "),
                               "; config.json makes it ", expected));
  }
  if (info.dtype == DType::kF32 || info.dtype == DType::kBF16 || info.dtype == DType::kF16) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrCat("tensor ", name, " has type ", std::string(DTypeName(info.dtype)),
                             "; F32, BF16 and F16 can be run"));
}

bool IsIgnored(const ModelConfig& config, std::string_view name) {
  if (config.tie_word_embeddings &&
      name == absl::StrCat(std::string(config.family->modules.head), ".weight")) {
    return true;
  }
  for (std::string_view end : kIgnored) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

}  // namespace

std::vector<TensorSource> TensorSources(const ModelConfig& config, const Checkpoint& checkpoint) {
  const ModuleNames& names = config.family->modules;
  const std::string embedding = absl::StrCat(std::string(names.embedding), ".weight");
  std::string prefix(names.model);
  if (!checkpoint.tensors.contains(prefix + embedding) && checkpoint.tensors.contains(embedding)) {
    prefix.clear();
  }
  return Sources(config, std::move(prefix)).All();
}

absl::Status CheckTensors(const ModelConfig& config, const Checkpoint& checkpoint,
                          const std::vector<TensorSource>& sources) {
  std::set<std::string, std::less<>> expected;
  for (const TensorSource& source : sources) {
    for (size_t i = 0; i < source.names.size(); ++i) {
      HC_RETURN_IF_ERROR(CheckTensor(checkpoint, source.names[i], source.shapes[i]));
      expected.insert(source.names[i]);
    }
  }
  constexpr size_t kNamed = 5;
  std::vector<std::string> unexpected;
  size_t count = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (expected.contains(name) || IsIgnored(config, name)) continue;
    if (++count <= kNamed) unexpected.push_back(name);
  }
  if (count == 0) return absl::OkStatus();
  return Refuse(absl::StrCat("the checkpoint has ", count, " tensors that a ", config.model_type,
                             " model with this config.json does not have: ",
                             absl::StrJoin(unexpected, ", "), count > kNamed ? ", ..." : ""));
}

}  // namespace headcount::catalog
