// See norm.h.

#include "worker/engine/model/norm.h"

#include "ATen/ops/layer_norm.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/mul.h"

namespace headcount::engine {
namespace {

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  // The norm is one reduction without an intermediate the size of x.
  at::Tensor inverse = at::linalg_vector_norm(x, 2, -1, /*keepdim=*/true, at::kFloat);
  inverse.square_().div_(static_cast<double>(x.size(-1))).add_(eps).rsqrt_();
  return at::mul(x, inverse).mul_(weight).to(x.scalar_type());
}

}  // namespace

at::Tensor ApplyNorm(catalog::NormKind kind, const at::Tensor& x, const NormWeights& norm,
                     double eps) {
  if (kind != catalog::NormKind::kLayer) return RmsNorm(x, norm.weight, eps);
  return at::layer_norm(x.to(at::kFloat), x.sizes().slice(x.dim() - 1), norm.weight, norm.bias, eps)
      .to(x.scalar_type());
}

}  // namespace headcount::engine
