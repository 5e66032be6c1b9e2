// The forward pass of all families in its steps, over a packed batch: tokens to hidden states, each
// layer's attention, the rest of the layer, logits. walk.h takes them in order.
//
// Used by one thread at a time. Throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ATen/core/Tensor.h"
#include "common/catalog/model_config.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/model/packing.h"
#include "worker/engine/model/rope.h"
#include "worker/engine/model/weights.h"

namespace headcount::engine {

// What a layer's heads did.
struct LayerHeads {
  int layer = 0;
  const Packing* packing = nullptr;
  int64_t window = 0;        // as AttentionInput's
  at::Tensor k;              // [tokens, kv_heads, head_dim], of the model's type, rotated
  at::Tensor v;              // likewise
  AttentionOutput attended;  // before any intervention in this layer
};

// One for layers that see everything, one for those with a window where they have a rope of their
// own.
struct RotaryTables {
  RotaryTable global;
  RotaryTable local;
};

// W_O with its bias: z [tokens, heads, head_dim] -> [tokens, hidden].
at::Tensor ProjectHeads(const LayerWeights& layer, const at::Tensor& z);

class Transformer {
 public:
  Transformer(catalog::ModelConfig config, ModelWeights weights,
              std::unique_ptr<Attention> attention, c10::Device device);

  // Of the packing's tokens: [tokens, hidden].
  at::Tensor Embed(std::span<const int32_t> token_ids, const Packing& packing) const;

  RotaryTables Rotary(const Packing& packing);

  // Attention of layer `layer` over the hidden states x [tokens, hidden] before it; `past` as in
  // AttentionInput.
  LayerHeads Attend(int layer, const at::Tensor& x, const Packing& packing,
                    const RotaryTables& rotary, AttentionExtras extras,
                    std::span<const PastKeys> past = {}) const;

  // The rest of the layer: adds W_O of the heads' outputs z [n, heads, head_dim] and the MLP to x
  // [n, hidden], in place.
  void Finish(int layer, const at::Tensor& z, at::Tensor& x) const;

  // Of hidden states after the last layer, before the final norm: [n, vocabulary] float32, computed
  // in float32.
  at::Tensor Logits(const at::Tensor& hidden) const;

  // G_h = W_h' W_h of all query heads of a layer: [heads, head_dim, head_dim] float32, made on
  // first use. It gives the norm of a head's part of W_O's output, |W_h z|^2 = z' G_h z, without
  // forming it.
  const at::Tensor& Gram(int layer);

  const catalog::ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  c10::Device device() const { return device_; }

 private:
  // x itself where the model does not have the norm.
  at::Tensor Normed(const at::Tensor& x, const NormWeights& norm) const;
  // The q and k of all heads after their norms: [tokens, (heads + kv_heads) * head_dim], or with
  // the last dimension in two.
  at::Tensor NormedHeads(const LayerWeights& layer, const at::Tensor& qk) const;
  AttentionInput Project(int layer, const at::Tensor& x, const RotaryTables& tables,
                         const Packing& packing) const;
  at::Tensor Mlp(const LayerWeights& layer, const at::Tensor& x) const;

  catalog::ModelConfig config_;
  ModelWeights weights_;
  std::unique_ptr<Attention> attention_;
  c10::Device device_;
  std::optional<Rope> rope_;
  std::optional<Rope> local_rope_;
  std::vector<at::Tensor> grams_;
};

}  // namespace headcount::engine
