// See row_reduce.h.

#include "worker/engine/measure/row_reduce.h"

#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/zeros_like.h"

namespace headcount::engine {
namespace {

// Sums of the segments of each block -> sums of rows, their trunk's included.
at::Tensor ToRows(std::vector<at::Tensor>& sums, const Packing& packing) {
  if (packing.trunks.empty()) {
    return (sums.size() == 1 ? sums[0] : at::cat(sums)).index_select(0, packing.branch_of_row);
  }
  at::Tensor nothing = at::zeros_like(sums[0].narrow(0, 0, 1));  // for rows without a trunk
  sums.push_back(nothing);
  const at::Tensor all = at::cat(sums);
  return all.index_select(0, packing.branch_of_row).add_(all.index_select(0, packing.trunk_of_row));
}

}  // namespace

at::Tensor RowMeans(const at::Tensor& values, const Packing& packing) {
  std::vector<at::Tensor> sums;
  for (const SegmentBlock& block : packing.blocks) {
    sums.push_back(block.Of(values).sum(1, /*keepdim=*/false, at::kFloat));
  }
  return ToRows(sums, packing).div_(packing.row_lengths);
}

at::Tensor RowSumsWithoutFirst(const at::Tensor& values, const Packing& packing) {
  std::vector<at::Tensor> sums;
  for (const SegmentBlock& block : packing.blocks) {
    const int64_t skipped = block.starts_input ? 1 : 0;
    sums.push_back(block.Of(values)
                       .narrow(1, skipped, block.length - skipped)
                       .sum(1, /*keepdim=*/false, at::kFloat));
  }
  return ToRows(sums, packing);
}

at::Tensor Norms(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, -1, /*keepdim=*/false, at::kFloat);
}

at::Tensor ToQueryHeads(const at::Tensor& values, int64_t heads) {
  const int64_t group = heads / values.size(1);
  return group == 1 ? values : values.repeat_interleave(group, 1);
}

}  // namespace headcount::engine
