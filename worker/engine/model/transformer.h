// The forward pass of all families, layer by layer, over a packed batch. A watcher may read every
// layer's heads and change their outputs before W_O; without one this is the plain model.
//
// Used by one thread at a time. Throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include <memory>

#include "ATen/core/Tensor.h"
#include "common/catalog/model_config.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/model/packing.h"
#include "worker/engine/model/rope.h"
#include "worker/engine/model/weights.h"

namespace headcount::engine {

// What a layer's heads did, as the watcher sees it.
struct LayerHeads {
  int layer = 0;
  const Packing* packing = nullptr;
  at::Tensor v;              // [tokens, kv_heads, head_dim], of the model's type
  AttentionOutput attended;  // attended.z may be changed in place: it is what goes into W_O
};

class LayerWatcher {
 public:
  virtual ~LayerWatcher() = default;
  // What attention shall take along in this layer.
  virtual AttentionExtras Extras(int layer) const = 0;
  // Between attention and W_O.
  virtual void OnHeads(LayerHeads& heads) = 0;
};

// W_O with its bias: z [tokens, heads, head_dim] -> [tokens, hidden].
at::Tensor ProjectHeads(const LayerWeights& layer, const at::Tensor& z);

class Transformer {
 public:
  Transformer(catalog::ModelConfig config, ModelWeights weights,
              std::unique_ptr<Attention> attention, c10::Device device);

  // Runs all layers. `wanted` [n] int64 (undefined: none) are token indices of the batch; returns
  // their hidden states after the last layer, before the final norm: [n, hidden]. `watcher` may be
  // null.
  at::Tensor Forward(const Packing& packing, const at::Tensor& wanted, LayerWatcher* watcher);

  // Of hidden states as Forward returns them: [n, vocabulary] float32, computed in float32.
  at::Tensor Logits(const at::Tensor& hidden) const;

  // G_h = W_h' W_h of all query heads of a layer: [heads, head_dim, head_dim] float32, made on
  // first use. It gives the norm of a head's part of W_O's output, |W_h z|^2 = z' G_h z, without
  // forming it.
  const at::Tensor& Gram(int layer);

  const catalog::ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  c10::Device device() const { return device_; }

 private:
  AttentionInput Project(const LayerWeights& layer, const at::Tensor& x, const RotaryTable& table,
                         const Packing& packing) const;
  at::Tensor Mlp(const LayerWeights& layer, const at::Tensor& x) const;
  void Finish(const LayerWeights& layer, const at::Tensor& z, at::Tensor& x) const;

  catalog::ModelConfig config_;
  ModelWeights weights_;
  std::unique_ptr<Attention> attention_;
  c10::Device device_;
  Rope rope_;
  std::vector<at::Tensor> grams_;
};

}  // namespace headcount::engine
