// The norms of all families. Pure functions; throw libtorch's exceptions (see torch_guard.h).

#pragma once

#include "ATen/core/Tensor.h"
#include "common/catalog/family.h"

namespace headcount::engine {

// As the engine multiplies with them: what checkpoints hold less 1 is whole here. Undefined where a
// model does not have the norm.
struct NormWeights {
  at::Tensor weight;
  at::Tensor bias;  // kLayer
};

// Over the last dimension, in float32, returned in x's type. RMS: x / sqrt(mean(x^2) + eps) *
// weight; layer norm takes the mean off first and adds the bias.
at::Tensor ApplyNorm(catalog::NormKind kind, const at::Tensor& x, const NormWeights& norm,
                     double eps);

}  // namespace headcount::engine
