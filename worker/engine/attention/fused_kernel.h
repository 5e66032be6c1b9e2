// libtorch's fused attention kernels, one call for every device and type. Called by flash.cc
// alone. Throws libtorch's exceptions (see torch_guard.h).

#pragma once

#include "ATen/core/Tensor.h"

namespace headcount::engine {

struct FusedResult {
  at::Tensor output;       // [rows, heads, length, head_dim], of the inputs' type
  at::Tensor log_sum_exp;  // [rows, heads, length] float32, natural logarithm, of the scaled logits
};

// Which keys a query sees.
enum class Visible {
  kUpToItself,  // as many keys as queries
  kAll,
};

// q [rows, heads, length, head_dim], k and v [rows, kv_heads, keys, head_dim], strided views
// allowed.
FusedResult FusedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, Visible visible);

}  // namespace headcount::engine
