// The MLP's non-linear functions. Pure functions; throw libtorch's exceptions (see torch_guard.h).

#pragma once

#include "ATen/core/Tensor.h"
#include "common/catalog/family.h"

namespace headcount::engine {

// In place.
void Activate(catalog::Activation activation, at::Tensor& x);

}  // namespace headcount::engine
