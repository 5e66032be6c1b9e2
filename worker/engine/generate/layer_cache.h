// What one layer computed for the tokens of a row so far, under one history of changed heads below
// it, and the caches of the next layer for each decision that this layer has taken. The caches of a
// row are so a tree: a step walks from the root along the decisions that it takes, and finds either
// a cache that lacks the newest tokens alone, or one that an earlier step left behind and that
// lacks a few more, or none. Whatever is lacking is computed from the cache of the layer below.
//
// Called by generator.cc. One thread. Throws libtorch's exceptions (see tensor/torch_guard.h).

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "worker/engine/attention/attention.h"

namespace headcount::engine {

// Rows of a tensor that grows at its end.
class GrowingTensor {
 public:
  // `rows` [n, ...] go to the end; there is room for `capacity` rows from the first call on.
  void Append(const at::Tensor& rows, int64_t capacity);
  // All rows from `begin` on, without a copy.
  at::Tensor From(int64_t begin) const { return whole_.narrow(0, begin, rows_ - begin); }
  int64_t bytes() const { return whole_.defined() ? static_cast<int64_t>(whole_.nbytes()) : 0; }

 private:
  at::Tensor whole_;  // [capacity, ...]
  int64_t rows_ = 0;
};

struct LayerCache {
  int64_t tokens = 0;     // of the row's input that are in here
  int64_t last_step = 0;  // that came by
  GrowingTensor k;        // [tokens, kv_heads, head_dim]
  GrowingTensor v;
  GrowingTensor x;  // [tokens, hidden]: hidden states before the layer; not kept by the last layer
  GrowingTensor
      z;  // [tokens, heads, head_dim]: the heads' outputs before any intervention; likewise
  at::Tensor
      sums;  // [measurements, heads] float32: sums over the tokens, or the value at position 0
  std::map<std::string, std::unique_ptr<LayerCache>> next;  // by the decision, a code a head

  int64_t bytes() const { return k.bytes() + v.bytes() + x.bytes() + z.bytes(); }
  // Of the whole tree from here on.
  int64_t TreeBytes() const;
  // Drops the caches that no step has come by for longest, down to `limit` bytes; those of step
  // `now` stay. Returns the bytes that are left.
  int64_t Trim(int64_t limit, int64_t now);
};

}  // namespace headcount::engine
