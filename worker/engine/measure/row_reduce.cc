// See row_reduce.h.

#include "worker/engine/measure/row_reduce.h"

#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/linalg_vector_norm.h"

namespace headcount::engine {

at::Tensor RowMeans(const at::Tensor& values, const Packing& packing) {
  std::vector<at::Tensor> means;
  for (const RowBlock& block : packing.blocks) {
    means.push_back(block.Of(values).mean(1, /*keepdim=*/false, at::kFloat));
  }
  return means.size() == 1 ? means[0] : at::cat(means);
}

at::Tensor RowSumsWithoutFirst(const at::Tensor& values, const Packing& packing) {
  std::vector<at::Tensor> sums;
  for (const RowBlock& block : packing.blocks) {
    sums.push_back(
        block.Of(values).narrow(1, 1, block.length - 1).sum(1, /*keepdim=*/false, at::kFloat));
  }
  return sums.size() == 1 ? sums[0] : at::cat(sums);
}

at::Tensor Norms(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, -1, /*keepdim=*/false, at::kFloat);
}

at::Tensor ToQueryHeads(const at::Tensor& values, int64_t heads) {
  const int64_t group = heads / values.size(1);
  return group == 1 ? values : values.repeat_interleave(group, 1);
}

}  // namespace headcount::engine
