// first_weight and entropy: means of what attention took along with its output.

#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {

at::Tensor MeasureFirstWeight(const MeasureInput& input) {
  return RowMeans(input.attended.first_weight, input.packing);
}

at::Tensor MeasureEntropy(const MeasureInput& input) {
  // Single tokens are clamped by nobody, so that rounding cancels in the mean; an entropy below 0
  // is none.
  return RowMeans(input.attended.entropy, input.packing).clamp_min_(0);
}

}  // namespace headcount::engine
