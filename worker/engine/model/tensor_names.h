// Which tensors a checkpoint of each family holds: the one place that knows their names. A pure
// function, no errors.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ATen/core/Tensor.h"
#include "common/catalog/model_config.h"
#include "worker/engine/model/weights.h"

namespace headcount::engine {

// Tensors of a checkpoint that are stored one below the other (along dimension 0) in one tensor of
// the engine.
struct TensorSource {
  at::Tensor* destination = nullptr;
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;  // one a name
};

// Everything that `weights` is filled from. weights.layers must have config.layers entries. The
// head is absent where it is tied to the embedding.
std::vector<TensorSource> TensorSources(const catalog::ModelConfig& config, ModelWeights& weights);

// Tensors that checkpoints carry and that no engine needs: rotary tables of old files, a copy of a
// tied head.
bool IsIgnoredTensor(const catalog::ModelConfig& config, std::string_view name);

}  // namespace headcount::engine
