// output and last_output: norms of the heads' outputs before W_O.

#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {

at::Tensor MeasureOutput(const MeasureInput& input) {
  return RowMeans(Norms(input.attended.z), input.packing);
}

at::Tensor MeasureLastOutput(const MeasureInput& input) {
  return Norms(input.attended.z.index_select(0, input.packing.last_tokens));
}

}  // namespace headcount::engine
