// Score formulas over tensors: the same steps that catalog::Expression evaluates over floats.
// Called by the decider. A pure function; throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include <array>

#include "ATen/core/Tensor.h"
#include "common/catalog/expression.h"

namespace headcount::engine {

// [rows, heads] float32 each, by catalog::Measurement; those that are not used may be undefined.
using MeasurementTensors = std::array<at::Tensor, catalog::kMeasurementCount>;

// One layer's scores, [rows, heads] float32.
at::Tensor EvaluateScore(const catalog::Expression& expression,
                         const MeasurementTensors& measurements);

}  // namespace headcount::engine
