// From values of tokens to values of rows. Pure functions; throw libtorch's exceptions (see
// torch_guard.h).

#pragma once

#include "ATen/core/Tensor.h"
#include "worker/engine/model/packing.h"

namespace headcount::engine {

// Means over the tokens of each row's input: [tokens, n] -> [rows, n] float32. A trunk's tokens are
// summed once for all its rows. Histories never mix, so a row that is not finite stays alone.
at::Tensor RowMeans(const at::Tensor& values, const Packing& packing);

// Sums over the tokens of each row's input but the first: [tokens, ...] -> [rows, ...] float32.
at::Tensor RowSumsWithoutFirst(const at::Tensor& values, const Packing& packing);

// Norms over the last dimension, accumulated in float32.
at::Tensor Norms(const at::Tensor& values);

// Values of KV heads [n, kv_heads] for the query heads that share them: [n, heads].
at::Tensor ToQueryHeads(const at::Tensor& values, int64_t heads);

}  // namespace headcount::engine
