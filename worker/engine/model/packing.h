// A layout as tensors: the tokens of its trunks, then of its branches, one segment after the other
// without padding. Matrix products run over all tokens at once; attention runs over blocks of
// segments of equal length, and once more from a trunk's branches to the trunk. So no score can see
// padding, and lengths are carried, never inferred.
//
// Immutable after Pack. Throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "worker/engine/layout.h"

namespace headcount::engine {

// `segments` consecutive segments of `length` tokens each; the first token of the first is token
// `begin` of the batch.
struct SegmentBlock {
  int64_t begin = 0;
  int64_t segments = 0;
  int64_t length = 0;
  bool starts_input = false;  // position 0 is here: trunks, and branches with nothing before them

  int64_t tokens() const { return segments * length; }
  // The block's part of `values` ([tokens, ...]) as [segments, length, ...], without a copy.
  at::Tensor Of(const at::Tensor& values) const;
};

// Tokens [begin, begin + tokens) are those of all branches of the trunk at [trunk, trunk +
// trunk_tokens).
struct TrunkBlock {
  int64_t trunk = 0;
  int64_t trunk_tokens = 0;
  int64_t begin = 0;
  int64_t tokens = 0;
};

struct Packing {
  Layout layout;
  int64_t tokens = 0;
  std::vector<int> rows;             // of the batch, in the order in which the branches list them
  std::vector<int64_t> begins;       // [segments]: index of its first token; trunks, then branches
  std::vector<int64_t> lengths;      // [rows]: tokens of the input, trunk or past included
  std::vector<int64_t> ends;         // [rows]: one past the index of the last token
  std::vector<SegmentBlock> blocks;  // in order, covering all segments
  std::vector<TrunkBlock> trunks;    // of layout.trunks
  // On the device:
  at::Tensor row_ids;        // [rows] int64: `rows`
  at::Tensor positions;      // [tokens] int64: index of the token in its input
  at::Tensor row_of_token;   // [tokens] int64: a row (an index into `rows`) that has the token
  at::Tensor branch_of_row;  // [rows] int64: its branch's segment
  at::Tensor trunk_of_row;   // [rows] int64: its trunk's segment, or the number of segments;
                             // undefined without trunks
  at::Tensor first_tokens;  // [rows] int64: index of the token at position 0; its first token where
                            // that is in the past
  at::Tensor last_tokens;   // [rows] int64
  at::Tensor row_lengths;   // [rows, 1] float32: `lengths`

  int64_t row_count() const { return static_cast<int64_t>(rows.size()); }
  int64_t segments() const { return static_cast<int64_t>(begins.size()); }
};

Packing Pack(Layout layout, c10::Device device);

// A layout of single rows, each an input of its own of `lengths` tokens.
Layout SingleRows(std::span<const int64_t> lengths);

// A host vector as an int64 tensor on the device.
at::Tensor ToDevice(const std::vector<int64_t>& values, c10::Device device);

}  // namespace headcount::engine
