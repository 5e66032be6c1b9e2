// The product of tokens with a weight matrix, by the fastest kernel that the device has for it.
// Called wherever the model multiplies; pure. Exceptions of libtorch pass through.

#pragma once

#include <optional>

#include "ATen/core/Tensor.h"

namespace headcount::engine {

// x [tokens, in], weight [out, in], bias [out] -> [tokens, out], in x's dtype.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace headcount::engine
