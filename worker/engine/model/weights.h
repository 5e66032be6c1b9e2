// A model's weights on its device, loaded by the names that its family uses in a checkpoint. Called
// by Engine::Load.
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
#include "worker/engine/tensor/checkpoint_reader.h"

namespace headcount::engine {

// Matrices are [outputs, inputs], as checkpoints have them. Tensors that the family does not have
// are undefined.
struct LayerWeights {
  at::Tensor attention_norm;  // before attention (pre-norm families)
  at::Tensor qkv;             // q, k and v in one: [(heads + 2 kv_heads) * head_dim, hidden]
  at::Tensor qkv_bias;
  at::Tensor q_norm;  // over the whole projection (OLMo 2)
  at::Tensor k_norm;
  at::Tensor output;  // W_O: [hidden, heads * head_dim]
  at::Tensor output_bias;
  at::Tensor attention_output_norm;  // on attention's output (post-norm families)
  at::Tensor mlp_norm;               // before the MLP (pre-norm families)
  at::Tensor gate_up;                // gate and up in one: [2 intermediate, hidden]
  at::Tensor gate_up_bias;
  at::Tensor down;  // [hidden, intermediate]
  at::Tensor down_bias;
  at::Tensor mlp_output_norm;  // on the MLP's output (post-norm families)
};

struct ModelWeights {
  at::Tensor embedding;  // [vocabulary, hidden]
  at::Tensor final_norm;
  at::Tensor head;  // [vocabulary, hidden]; the embedding itself where they are tied
  std::vector<LayerWeights> layers;
  int64_t bytes = 0;  // on the device
};

absl::StatusOr<ModelWeights> LoadWeights(const catalog::ModelConfig& config,
                                         const CheckpointReader& reader, c10::ScalarType dtype,
                                         c10::Device device);

}  // namespace headcount::engine
