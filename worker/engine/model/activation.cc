// See activation.h.

#include "worker/engine/model/activation.h"

#include "ATen/ops/gelu.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/silu.h"

namespace headcount::engine {

void Activate(catalog::Activation activation, at::Tensor& x) {
  switch (activation) {
    case catalog::Activation::kSilu:
      at::silu_(x);
      return;
    case catalog::Activation::kGelu:
      at::gelu_(x, "none");
      return;
    case catalog::Activation::kGeluTanh:
      at::gelu_(x, "tanh");
      return;
    case catalog::Activation::kRelu:
      at::relu_(x);
      return;
  }
}

}  // namespace headcount::engine
