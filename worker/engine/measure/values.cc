// first_value and value: norms of value vectors. Query heads of one KV group share them.

#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {

at::Tensor MeasureFirstValue(const MeasureInput& input) {
  const at::Tensor norms = Norms(input.v.index_select(0, input.packing.first_tokens));
  return ToQueryHeads(norms, input.attended.z.size(1));
}

at::Tensor MeasureValue(const MeasureInput& input) {
  return ToQueryHeads(RowMeans(Norms(input.v), input.packing), input.attended.z.size(1));
}

}  // namespace headcount::engine
