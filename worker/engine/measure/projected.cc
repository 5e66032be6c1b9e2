// projected: norms of what each head adds to W_O's output, through the Gram matrix of its columns:
// the product [hidden x head_dim] of every head and token is never formed.

#include "ATen/ops/bmm.h"
#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {

at::Tensor MeasureProjected(const MeasureInput& input) {
  const at::Tensor z =
      input.attended.z.to(at::kFloat).transpose(0, 1);                // [heads, tokens, head_dim]
  const at::Tensor squares = at::bmm(z, input.gram).mul_(z).sum(-1);  // [heads, tokens]
  return RowMeans(squares.clamp_min_(0).sqrt_().t(), input.packing);
}

}  // namespace headcount::engine
