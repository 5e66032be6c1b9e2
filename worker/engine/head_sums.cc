// See head_sums.h.

#include "worker/engine/head_sums.h"

namespace headcount::engine {
namespace {

void AddRow(const at::Tensor& rows, size_t row, std::vector<double>& sums) {
  const auto size = static_cast<size_t>(rows.numel() / rows.size(0));
  const float* values = rows.const_data_ptr<float>() + row * size;
  sums.resize(size);
  for (size_t i = 0; i < size; ++i) sums[i] += values[i];
}

}  // namespace

void HeadSumsBuilder::Add(const BatchHeadSums& batch, std::span<const int64_t> lengths,
                          std::span<RowResult* const> results) {
  for (size_t row = 0; row < results.size(); ++row) {
    if (!results[row]->finite) continue;
    AddRow(batch.rest, row, rest_);
    AddRow(batch.first, row, first_);
    rest_count_ += lengths[row] - 1;
    ++first_count_;
  }
}

HeadSums HeadSumsBuilder::Build() const {
  return {{rest_.begin(), rest_.end()}, rest_count_, {first_.begin(), first_.end()}, first_count_};
}

}  // namespace headcount::engine
