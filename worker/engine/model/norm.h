// RMS norm, as all families here use it. A pure function; throws libtorch's exceptions (see
// torch_guard.h).

#pragma once

#include "ATen/core/Tensor.h"

namespace headcount::engine {

// x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32, returned in x's type.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace headcount::engine
