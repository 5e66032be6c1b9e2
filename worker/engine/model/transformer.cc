// See transformer.h.

#include "worker/engine/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ATen/ops/bmm.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/scalar_tensor.h"
#include "worker/engine/model/activation.h"

namespace headcount::engine {
namespace {

using catalog::QkNorm;

// The MLP runs over so many tokens at a time: its inner activations are the widest of the model,
// and in this size they stay in cache on a CPU.
constexpr int64_t kMlpTokensCpu = 512;
constexpr int64_t kMlpTokensAccelerator = 16384;

// Vocabulary rows that are converted to float32 at a time.
constexpr int64_t kHeadRows = 16384;

std::optional<at::Tensor> Optional(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::nullopt;
  return tensor;
}

}  // namespace

at::Tensor ProjectHeads(const LayerWeights& layer, const at::Tensor& z) {
  return at::linear(z.flatten(1), layer.output, Optional(layer.output_bias));
}

Transformer::Transformer(catalog::ModelConfig config, ModelWeights weights,
                         std::unique_ptr<Attention> attention, c10::Device device)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      attention_(std::move(attention)),
      device_(device),
      grams_(weights_.layers.size()) {
  if (config_.family->learned_positions) return;
  rope_.emplace(config_.rope, config_.rotary_dim, device);
  if (config_.local_rope.theta > 0) {
    local_rope_.emplace(config_.local_rope, config_.rotary_dim, device);
  }
}

at::Tensor Transformer::Normed(const at::Tensor& x, const NormWeights& norm) const {
  if (!norm.weight.defined()) return x;
  return ApplyNorm(config_.family->norm_kind, x, norm, config_.norm_eps);
}

at::Tensor Transformer::NormedHeads(const LayerWeights& layer, const at::Tensor& qk) const {
  const int64_t heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
  at::Tensor q = qk.narrow(1, 0, heads * dim), k = qk.narrow(1, heads * dim, kv_heads * dim);
  if (config_.family->qk_norm == QkNorm::kHead) {
    q = q.unflatten(1, {heads, dim});
    k = k.unflatten(1, {kv_heads, dim});
  }
  return at::cat({Normed(q, layer.q_norm), Normed(k, layer.k_norm)}, 1);
}

AttentionInput Transformer::Project(int index, const at::Tensor& x, const RotaryTables& tables,
                                    const Packing& packing) const {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const catalog::LayerAttention& kind = config_.attention[static_cast<size_t>(index)];
  const int64_t heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
  const at::Tensor qkv =
      at::linear(Normed(x, layer.attention_norm), layer.qkv, Optional(layer.qkv_bias));
  at::Tensor qk = qkv.narrow(1, 0, (heads + kv_heads) * dim);
  if (config_.family->qk_norm != QkNorm::kNone) qk = NormedHeads(layer, qk);
  if (qk.dim() == 2) qk = qk.unflatten(1, {heads + kv_heads, dim});
  const RotaryTable& table = kind.local_rope ? tables.local : tables.global;
  if (table.cos.defined()) qk = Rotate(qk, table);
  AttentionInput input;
  input.q = qk.narrow(1, 0, heads);
  input.k = qk.narrow(1, heads, kv_heads);
  input.v = qkv.narrow(1, (heads + kv_heads) * dim, kv_heads * dim).unflatten(1, {kv_heads, dim});
  input.scale = kind.scale;
  input.soft_cap = config_.attention_soft_cap;
  // A window that no input outgrows hides nothing.
  const int64_t longest = *std::max_element(packing.lengths.begin(), packing.lengths.end());
  if (kind.window < longest) input.window = kind.window;
  input.packing = &packing;
  return input;
}

at::Tensor Transformer::Mlp(const LayerWeights& layer, const at::Tensor& x) const {
  const int64_t chunk = device_.is_cpu() ? kMlpTokensCpu : kMlpTokensAccelerator;
  const int64_t inner = config_.intermediate_size;
  const at::Tensor out = at::empty(x.sizes(), x.options());
  for (int64_t begin = 0; begin < x.size(0); begin += chunk) {
    const int64_t count = std::min(chunk, x.size(0) - begin);
    const at::Tensor gate_up =
        at::linear(x.narrow(0, begin, count), layer.gate_up, Optional(layer.gate_up_bias));
    at::Tensor gate = gate_up.narrow(1, 0, inner);
    Activate(config_.activation, gate);
    if (config_.family->gated_mlp()) gate.mul_(gate_up.narrow(1, inner, inner));
    out.narrow(0, begin, count).copy_(at::linear(gate, layer.down, Optional(layer.down_bias)));
  }
  return out;
}

void Transformer::Finish(int index, const at::Tensor& z, at::Tensor& x) const {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const auto mlp = [&] {
    return Normed(Mlp(layer, Normed(x, layer.mlp_norm)), layer.mlp_output_norm);
  };
  const at::Tensor beside = config_.parallel_blocks ? mlp() : at::Tensor();
  x.add_(Normed(ProjectHeads(layer, z), layer.attention_output_norm));
  x.add_(config_.parallel_blocks ? beside : mlp());
}

at::Tensor Transformer::Embed(std::span<const int32_t> token_ids, const Packing& packing) const {
  const at::Tensor ids = at::from_blob(const_cast<int32_t*>(token_ids.data()),
                                       {static_cast<int64_t>(token_ids.size())}, at::kInt)
                             .to(device_, at::kLong);
  at::Tensor x = weights_.embedding.index_select(0, ids);
  if (config_.embedding_scale != 1) {
    // transformers rounds the factor to the model's type too.
    x.mul_(at::scalar_tensor(config_.embedding_scale, x.options()));
  }
  if (weights_.positions.defined()) x.add_(weights_.positions.index_select(0, packing.positions));
  return x;
}

RotaryTables Transformer::Rotary(const Packing& packing) {
  const int64_t longest = *std::max_element(packing.lengths.begin(), packing.lengths.end());
  RotaryTables tables;
  if (rope_) tables.global = rope_->At(packing.positions, longest);
  if (local_rope_) tables.local = local_rope_->At(packing.positions, longest);
  return tables;
}

LayerHeads Transformer::Attend(int layer, const at::Tensor& x, const Packing& packing,
                               const RotaryTables& rotary, AttentionExtras extras,
                               std::span<const PastKeys> past) const {
  AttentionInput input = Project(layer, x, rotary, packing);
  input.past = past;
  return {layer, &packing, input.window, input.k, input.v, attention_->Run(input, extras)};
}

at::Tensor Transformer::Logits(const at::Tensor& hidden) const {
  const at::Tensor x = Normed(hidden.to(at::kFloat), weights_.final_norm);
  const at::Tensor& head = weights_.head;
  at::Tensor logits;
  if (head.scalar_type() == at::kFloat) {
    logits = at::linear(x, head);
  } else {
    // 16-bit logits have three digits: answers would tie. The products of the 16-bit weights are
    // taken in float32.
    logits = at::empty({x.size(0), head.size(0)}, x.options());
    for (int64_t begin = 0; begin < head.size(0); begin += kHeadRows) {
      const int64_t count = std::min(kHeadRows, head.size(0) - begin);
      logits.narrow(1, begin, count)
          .copy_(at::linear(x, head.narrow(0, begin, count).to(at::kFloat)));
    }
  }
  const double cap = config_.logit_soft_cap;
  return cap > 0 ? logits.div_(cap).tanh_().mul_(cap) : logits;
}

const at::Tensor& Transformer::Gram(int layer) {
  at::Tensor& gram = grams_[static_cast<size_t>(layer)];
  if (!gram.defined()) {
    const at::Tensor parts = weights_.layers[static_cast<size_t>(layer)]
                                 .output.to(at::kFloat)
                                 .unflatten(1, {config_.heads, config_.head_dim})
                                 .permute({1, 2, 0});  // [heads, head_dim, hidden]
    gram = at::bmm(parts, parts.transpose(1, 2));
  }
  return gram;
}

}  // namespace headcount::engine
