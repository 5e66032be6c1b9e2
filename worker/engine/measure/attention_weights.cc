// first_weight and entropy: means of what attention took along with its output.

#include <limits>

#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {

at::Tensor MeasureFirstWeight(const MeasureInput& input) {
  return RowMeans(input.attended.first_weight, input.packing);
}

at::Tensor OfTokensThatSeeFirst(const at::Tensor& means, const Packing& packing, int64_t window) {
  if (window == 0) return means;
  const at::Tensor& lengths = packing.row_lengths;
  const at::Tensor seeing = lengths.clamp_max(static_cast<double>(window));
  return means.mul(lengths.div(seeing))
      .masked_fill_(RowsThatLoseFirst(packing, window), std::numeric_limits<float>::quiet_NaN());
}

at::Tensor RowsThatLoseFirst(const Packing& packing, int64_t window) {
  if (window == 0) return {};
  return packing.row_lengths.gt(2 * static_cast<double>(window));
}

at::Tensor MeasureEntropy(const MeasureInput& input) {
  // Single tokens are clamped by nobody, so that rounding cancels in the mean; an entropy below 0
  // is none.
  return RowMeans(input.attended.entropy, input.packing).clamp_min_(0);
}

}  // namespace headcount::engine
