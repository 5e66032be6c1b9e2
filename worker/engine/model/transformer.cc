// See transformer.h.

#include "worker/engine/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ATen/ops/bmm.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/silu.h"
#include "worker/engine/model/norm.h"
#include "worker/engine/tensor/linear.h"

namespace headcount::engine {
namespace {

using catalog::NormPlacement;
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
  return Linear(z.flatten(1), layer.output, Optional(layer.output_bias));
}

Transformer::Transformer(catalog::ModelConfig config, ModelWeights weights,
                         std::unique_ptr<Attention> attention, c10::Device device)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      attention_(std::move(attention)),
      device_(device),
      rope_(config_, device),
      grams_(weights_.layers.size()) {}

AttentionInput Transformer::Project(const LayerWeights& layer, const at::Tensor& x,
                                    const RotaryTable& table, const Packing& packing) const {
  const int64_t heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
  const bool norm_before = config_.family->norm_placement == NormPlacement::kBefore;
  const at::Tensor in = norm_before ? RmsNorm(x, layer.attention_norm, config_.rms_norm_eps) : x;
  const at::Tensor qkv = Linear(in, layer.qkv, Optional(layer.qkv_bias));
  at::Tensor qk = qkv.narrow(1, 0, (heads + kv_heads) * dim);
  if (config_.family->qk_norm == QkNorm::kProjection) {
    qk = at::cat(
        {RmsNorm(qk.narrow(1, 0, heads * dim), layer.q_norm, config_.rms_norm_eps),
         RmsNorm(qk.narrow(1, heads * dim, kv_heads * dim), layer.k_norm, config_.rms_norm_eps)},
        1);
  }
  const at::Tensor rotated = Rotate(qk.unflatten(1, {heads + kv_heads, dim}), table);
  AttentionInput input;
  input.q = rotated.narrow(1, 0, heads);
  input.k = rotated.narrow(1, heads, kv_heads);
  input.v = qkv.narrow(1, (heads + kv_heads) * dim, kv_heads * dim).unflatten(1, {kv_heads, dim});
  input.scale = 1.0 / std::sqrt(static_cast<double>(dim));
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
        Linear(x.narrow(0, begin, count), layer.gate_up, Optional(layer.gate_up_bias));
    at::Tensor gate = gate_up.narrow(1, 0, inner);
    at::silu_(gate).mul_(gate_up.narrow(1, inner, inner));
    out.narrow(0, begin, count).copy_(Linear(gate, layer.down, Optional(layer.down_bias)));
  }
  return out;
}

void Transformer::Finish(int index, const at::Tensor& z, at::Tensor& x) const {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const double eps = config_.rms_norm_eps;
  if (config_.family->norm_placement == NormPlacement::kBefore) {
    x.add_(ProjectHeads(layer, z));
    x.add_(Mlp(layer, RmsNorm(x, layer.mlp_norm, eps)));
  } else {
    x.add_(RmsNorm(ProjectHeads(layer, z), layer.attention_output_norm, eps));
    x.add_(RmsNorm(Mlp(layer, x), layer.mlp_output_norm, eps));
  }
}

at::Tensor Transformer::Embed(std::span<const int32_t> token_ids) const {
  const at::Tensor ids = at::from_blob(const_cast<int32_t*>(token_ids.data()),
                                       {static_cast<int64_t>(token_ids.size())}, at::kInt)
                             .to(device_, at::kLong);
  return weights_.embedding.index_select(0, ids);
}

RotaryTable Transformer::Rotary(const Packing& packing) {
  const int64_t longest = *std::max_element(packing.lengths.begin(), packing.lengths.end());
  return rope_.At(packing.positions, longest);
}

LayerHeads Transformer::Attend(int layer, const at::Tensor& x, const Packing& packing,
                               const RotaryTable& rotary, AttentionExtras extras,
                               std::span<const PastKeys> past) const {
  AttentionInput input = Project(weights_.layers[static_cast<size_t>(layer)], x, rotary, packing);
  input.past = past;
  return {layer, &packing, input.k, input.v, attention_->Run(input, extras)};
}

at::Tensor Transformer::Logits(const at::Tensor& hidden) const {
  const at::Tensor x =
      RmsNorm(hidden.to(at::kFloat), weights_.final_norm.to(at::kFloat), config_.rms_norm_eps);
  const at::Tensor& head = weights_.head;
  if (head.scalar_type() == at::kFloat) return Linear(x, head);
  // 16-bit logits have three digits: answers would tie. The products of the 16-bit weights are
  // taken in float32.
  const at::Tensor logits = at::empty({x.size(0), head.size(0)}, x.options());
  for (int64_t begin = 0; begin < head.size(0); begin += kHeadRows) {
    const int64_t count = std::min(kHeadRows, head.size(0) - begin);
    logits.narrow(1, begin, count).copy_(Linear(x, head.narrow(0, begin, count).to(at::kFloat)));
  }
  return logits;
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
