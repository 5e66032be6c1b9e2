// A model's weights on its device, loaded from where its family keeps them in a checkpoint
// (common/catalog/checkpoint_tensors.h). Called by Engine::Load.
//
// Errors: FAILED_PRECONDITION for a tensor that is missing, unexpected or does not fit config.json,
// named; DATA_LOSS when the file holds fewer bytes than its header says or changes meanwhile.
// Immutable after loading, safe to share between threads.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"
#include "common/catalog/model_config.h"
#include "worker/engine/model/norm.h"
#include "worker/engine/tensor/checkpoint_reader.h"

namespace headcount::engine {

// Matrices are [outputs, inputs]. Tensors that the family does not have are undefined. Norms are
// float32, whatever the model's type.
struct LayerWeights {
  NormWeights attention_norm;         // on attention's input
  NormWeights attention_output_norm;  // on its output
  at::Tensor qkv;  // q, k and v in one: [(heads + 2 kv_heads) * head_dim, hidden]
  at::Tensor qkv_bias;
  NormWeights q_norm;
  NormWeights k_norm;
  at::Tensor output;  // W_O: [hidden, heads * head_dim]
  at::Tensor output_bias;
  NormWeights mlp_norm;  // on the MLP's input
  NormWeights mlp_output_norm;
  at::Tensor gate_up;  // gate and up in one: [2 intermediate, hidden]; up alone without a gate
  at::Tensor gate_up_bias;
  at::Tensor down;  // [hidden, intermediate]
  at::Tensor down_bias;
};

struct ModelWeights {
  at::Tensor embedding;  // [vocabulary, hidden]
  at::Tensor positions;  // [positions, hidden], where they are learned
  NormWeights final_norm;
  at::Tensor head;  // [vocabulary, hidden]; the embedding itself where they are tied
  std::vector<LayerWeights> layers;
  int64_t bytes = 0;  // on the device
};

absl::StatusOr<ModelWeights> LoadWeights(const catalog::ModelConfig& config,
                                         const CheckpointReader& reader, c10::ScalarType dtype,
                                         c10::Device device);

}  // namespace headcount::engine
