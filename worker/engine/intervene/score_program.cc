// See score_program.h.

#include "worker/engine/intervene/score_program.h"

#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/full.h"
#include "ATen/ops/maximum.h"
#include "ATen/ops/minimum.h"
#include "ATen/ops/scalar_tensor.h"
#include "ATen/ops/where.h"

namespace headcount::engine {
namespace {

using catalog::Op;

at::Tensor LayerMean(const at::Tensor& x) {
  return x.dim() == 0 ? x : x.mean(-1, /*keepdim=*/true);
}

at::Tensor Unary(Op op, const at::Tensor& x) {
  switch (op) {
    case Op::kNegate:
      return x.neg();
    case Op::kLayerMean:
      return LayerMean(x);
    case Op::kAbs:
      return x.abs();
    case Op::kSqrt:
      return x.sqrt();
    default:
      return x.log();
  }
}

at::Tensor Binary(Op op, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSubtract:
      return a - b;
    case Op::kMultiply:
      return a * b;
    case Op::kDivide:
      return a / b;
    case Op::kDivideByLayerMean: {
      const at::Tensor mean = LayerMean(b);
      return at::where(mean.eq(0), 1.0, a / mean);
    }
    case Op::kMin:
      return at::minimum(a, b);
    default:
      return at::maximum(a, b);
  }
}

bool IsBinary(Op op) {
  return op == Op::kAdd || op == Op::kSubtract || op == Op::kMultiply || op == Op::kDivide ||
         op == Op::kDivideByLayerMean || op == Op::kMin || op == Op::kMax;
}

}  // namespace

at::Tensor EvaluateScore(const catalog::Expression& expression,
                         const MeasurementTensors& measurements) {
  at::Tensor shape;  // any measurement: gives rows, heads and the device
  for (const at::Tensor& tensor : measurements) {
    if (tensor.defined()) shape = tensor;
  }
  std::vector<at::Tensor> stack;
  for (const catalog::Step& step : expression.steps()) {
    if (step.op == Op::kConstant) {
      stack.push_back(at::scalar_tensor(step.constant, shape.options()));
    } else if (step.op == Op::kMeasurement) {
      stack.push_back(measurements[static_cast<size_t>(step.measurement)]);
    } else if (IsBinary(step.op)) {
      const at::Tensor b = stack.back();
      stack.pop_back();
      stack.back() = Binary(step.op, stack.back(), b);
    } else {
      stack.back() = Unary(step.op, stack.back());
    }
  }
  return stack.back().expand_as(shape);
}

}  // namespace headcount::engine
