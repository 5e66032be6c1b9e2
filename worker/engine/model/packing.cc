// See packing.h.

#include "worker/engine/model/packing.h"

#include <utility>

#include "ATen/ops/from_blob.h"

namespace headcount::engine {
namespace {

// Puts segments one after the other and keeps what is known of each token.
class Packer {
 public:
  explicit Packer(Packing& packing) : packing_(packing) {}

  void Add(int64_t length, int64_t position, int64_t row) {
    std::vector<SegmentBlock>& blocks = packing_.blocks;
    const bool starts = position == 0;
    if (blocks.empty() || blocks.back().length != length || blocks.back().starts_input != starts) {
      blocks.push_back({packing_.tokens, 0, length, starts});
    }
    ++blocks.back().segments;
    packing_.begins.push_back(packing_.tokens);
    packing_.tokens += length;
    for (int64_t i = 0; i < length; ++i) positions_.push_back(position + i);
    row_of_token_.insert(row_of_token_.end(), static_cast<size_t>(length), row);
  }

  void Finish(c10::Device device) {
    packing_.positions = ToDevice(positions_, device);
    packing_.row_of_token = ToDevice(row_of_token_, device);
  }

 private:
  Packing& packing_;
  std::vector<int64_t> positions_, row_of_token_;
};

}  // namespace

at::Tensor SegmentBlock::Of(const at::Tensor& values) const {
  return values.narrow(0, begin, tokens()).unflatten(0, {segments, length});
}

at::Tensor ToDevice(const std::vector<int64_t>& values, c10::Device device) {
  // from_blob only borrows; clone before the vector goes away.
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kLong)
      .clone()
      .to(device);
}

Layout SingleRows(std::span<const int64_t> lengths) {
  Layout layout;
  for (size_t i = 0; i < lengths.size(); ++i) {
    layout.branches.push_back({lengths[i], Layout::kNoTrunk, {static_cast<int>(i)}});
  }
  return layout;
}

Packing Pack(Layout layout, c10::Device device) {
  Packing packing;
  Packer packer(packing);
  const auto trunks = static_cast<int64_t>(layout.trunks.size());
  const int64_t segments = trunks + static_cast<int64_t>(layout.branches.size());

  // A trunk's tokens belong to the first row of its first branch, as good as any.
  std::vector<int64_t> row_of_trunk(layout.trunks.size());
  int64_t row = 0;
  for (auto branch = layout.branches.rbegin(); branch != layout.branches.rend(); ++branch) {
    row += static_cast<int64_t>(branch->rows.size());
  }
  for (auto branch = layout.branches.rbegin(); branch != layout.branches.rend(); ++branch) {
    row -= static_cast<int64_t>(branch->rows.size());
    if (branch->trunk != Layout::kNoTrunk) row_of_trunk[static_cast<size_t>(branch->trunk)] = row;
  }
  for (size_t t = 0; t < layout.trunks.size(); ++t)
    packer.Add(layout.trunks[t], 0, row_of_trunk[t]);

  std::vector<int64_t> branch_of_row, trunk_of_row, firsts, lasts;
  for (const Layout::Branch& branch : layout.branches) {
    const int64_t segment = packing.segments();
    const bool has_trunk = branch.trunk != Layout::kNoTrunk;
    const auto trunk = static_cast<size_t>(has_trunk ? branch.trunk : 0);
    const int64_t position = has_trunk ? layout.trunks[trunk] : branch.past;
    packer.Add(branch.length, position, packing.row_count());
    if (has_trunk) {
      if (packing.trunks.size() <= trunk) {
        packing.trunks.push_back({packing.begins[trunk], position, packing.begins.back(), 0});
      }
      packing.trunks.back().tokens += branch.length;
    }
    for (int r : branch.rows) {
      packing.rows.push_back(r);
      packing.lengths.push_back(position + branch.length);
      packing.ends.push_back(packing.tokens);
      branch_of_row.push_back(segment);
      trunk_of_row.push_back(has_trunk ? static_cast<int64_t>(trunk) : segments);
      firsts.push_back(has_trunk ? packing.begins[trunk] : packing.begins.back());
      lasts.push_back(packing.tokens - 1);
    }
  }
  packer.Finish(device);
  packing.row_ids = ToDevice({packing.rows.begin(), packing.rows.end()}, device);
  packing.branch_of_row = ToDevice(branch_of_row, device);
  if (trunks > 0) packing.trunk_of_row = ToDevice(trunk_of_row, device);
  packing.first_tokens = ToDevice(firsts, device);
  packing.last_tokens = ToDevice(lasts, device);
  packing.row_lengths = ToDevice(packing.lengths, device).to(at::kFloat).unsqueeze(1);
  packing.layout = std::move(layout);
  return packing;
}

}  // namespace headcount::engine
