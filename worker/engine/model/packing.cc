// See packing.h.

#include "worker/engine/model/packing.h"

#include "ATen/ops/from_blob.h"

namespace headcount::engine {

at::Tensor RowBlock::Of(const at::Tensor& values) const {
  return values.narrow(0, begin, tokens()).unflatten(0, {rows, length});
}

at::Tensor ToDevice(const std::vector<int64_t>& values, c10::Device device) {
  // from_blob only borrows; clone before the vector goes away.
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kLong)
      .clone()
      .to(device);
}

Packing Pack(std::span<const int32_t> prefix, std::span<const std::span<const int32_t>> suffixes,
             c10::Device device) {
  Packing packing;
  std::vector<int64_t> ids, positions, row_of_token, lasts;
  for (std::span<const int32_t> suffix : suffixes) {
    const auto length = static_cast<int64_t>(prefix.size() + suffix.size());
    if (packing.blocks.empty() || packing.blocks.back().length != length) {
      packing.blocks.push_back({packing.tokens, 0, length});
    }
    ++packing.blocks.back().rows;
    ids.insert(ids.end(), prefix.begin(), prefix.end());
    ids.insert(ids.end(), suffix.begin(), suffix.end());
    for (int64_t i = 0; i < length; ++i) positions.push_back(i);
    row_of_token.insert(row_of_token.end(), static_cast<size_t>(length), packing.rows());
    packing.begins.push_back(packing.tokens);
    packing.lengths.push_back(length);
    packing.tokens += length;
    lasts.push_back(packing.tokens - 1);
  }
  packing.token_ids = ToDevice(ids, device);
  packing.positions = ToDevice(positions, device);
  packing.row_of_token = ToDevice(row_of_token, device);
  packing.first_tokens = ToDevice(packing.begins, device);
  packing.last_tokens = ToDevice(lasts, device);
  return packing;
}

}  // namespace headcount::engine
