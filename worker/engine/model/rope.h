// Rotary position embedding, in the half-split layout of Hugging Face checkpoints, with no, linear
// or llama3 scaling.
//
// Frequencies and angles are float32, step by step as transformers computes them: long positions
// would otherwise part from the numbers that models were trained and published with. Used by one
// Transformer; not thread-safe. Throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "common/catalog/model_config.h"

namespace headcount::engine {

// One inverse frequency for each pair of the `dim` dimensions of a head that are rotated.
std::vector<float> InverseFrequencies(const catalog::RopeSettings& rope, int dim);

// Cosines and sines of a batch's tokens: [tokens, 1, pairs] float32 each. Undefined: nothing is
// rotated.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

class Rope {
 public:
  Rope(const catalog::RopeSettings& rope, int dim, c10::Device device);

  // `positions` [tokens] int64 on the device, all below `length`.
  RotaryTable At(const at::Tensor& positions, int64_t length);

 private:
  void Grow(int64_t length);

  std::vector<float> inverse_frequencies_;
  c10::Device device_;
  at::Tensor cos_;  // [positions so far, pairs]
  at::Tensor sin_;
};

// Rotates x [tokens, heads, head_dim] in float32, as many of its first dimensions as the table has
// pairs for, and keeps the rest; returns a new contiguous tensor of x's type.
at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table);

}  // namespace headcount::engine
