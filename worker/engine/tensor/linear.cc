// See linear.h.

#include "worker/engine/tensor/linear.h"

#include "ATen/core/dispatch/Dispatcher.h"
#include "ATen/ops/linear.h"

namespace headcount::engine {
namespace {

// libtorch multiplies float32 on a CPU by MKL, which leaves AVX-512 unused on processors that are
// not Intel's. Its oneDNN does not: 200 to 215 GFLOP/s against 165 to 200 on two Zen 4 cores, once
// there are some dozens of tokens; for fewer MKL is the faster one. oneDNN compiles a kernel for
// each shape it meets, so matrices that cost little are left alone.
constexpr int64_t kFewestTokens = 48;
constexpr int64_t kSmallestWeight = 1 << 16;

const c10::OperatorHandle* OneDnnLinear() {
  static const auto found =
      c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  return found.has_value() ? &*found : nullptr;
}

bool Suits(const at::Tensor& x, const at::Tensor& weight) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && x.dim() == 2 && x.size(0) >= kFewestTokens &&
         weight.numel() >= kSmallestWeight && weight.is_contiguous();
}

}  // namespace

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const c10::OperatorHandle* one_dnn = Suits(x, weight) ? OneDnnLinear() : nullptr;
  if (one_dnn == nullptr) return at::linear(x, weight, bias);
  // x, weight, bias, what follows the product, its arguments, its variant
  torch::jit::Stack stack = {x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), ""};
  one_dnn->callBoxed(stack);
  return stack.back().toTensor();
}

}  // namespace headcount::engine
