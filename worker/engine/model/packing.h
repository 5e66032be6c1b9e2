// The tokens of a batch's rows, one row after the other without padding. Matrix products run over
// all tokens at once; attention runs over blocks of rows of equal length, each a plain [rows,
// tokens] block. So no score can see padding, and lengths are carried, never inferred.
//
// When rows come to share a prefix, a block gets the keys and values of its history beside its own;
// everything else here counts query tokens and stays as it is.
//
// Immutable after Pack. Throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"

namespace headcount::engine {

// `rows` consecutive rows of `length` tokens each; the first token of the first is token `begin` of
// the batch.
struct RowBlock {
  int64_t begin = 0;
  int64_t rows = 0;
  int64_t length = 0;

  int64_t tokens() const { return rows * length; }
  // The block's part of `values` ([tokens, ...]) as [rows, length, ...], without a copy.
  at::Tensor Of(const at::Tensor& values) const;
};

struct Packing {
  int64_t tokens = 0;            // of all rows
  std::vector<int64_t> lengths;  // [rows]
  std::vector<int64_t> begins;   // [rows]: index of each row's first token
  std::vector<RowBlock> blocks;  // in order, covering all rows
  at::Tensor token_ids;          // [tokens] int64, on the device like the rest
  at::Tensor positions;          // [tokens] int64: index of the token in its row
  at::Tensor row_of_token;       // [tokens] int64
  at::Tensor first_tokens;       // [rows] int64: index of each row's first token
  at::Tensor last_tokens;        // [rows] int64

  int64_t rows() const { return static_cast<int64_t>(lengths.size()); }
};

// Each row is `prefix` then its suffix, at least one token. Rows of equal length should be
// neighbours: a block ends where the length changes.
Packing Pack(std::span<const int32_t> prefix, std::span<const std::span<const int32_t>> suffixes,
             c10::Device device);

// A host vector as an int64 tensor on the device.
at::Tensor ToDevice(const std::vector<int64_t>& values, c10::Device device);

}  // namespace headcount::engine
