// Causal attention over a batch, branches after their trunks, with what its weights say, behind one
// interface.
//
// One-pass (float32 on a CPU) takes the weights' statistics along. Flash runs libtorch's fused
// kernels: time and memory as they are for attention alone, and one more call for the entropy;
// those kernels know neither windows nor soft caps, so layers that have one go blockwise. Neither
// holds anything of size length x length. Dense is the definition, written out: for tests only.
// Implementations hold no state. They throw libtorch's exceptions (see torch_guard.h).

#pragma once

#include <memory>
#include <span>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"
#include "worker/engine/model/packing.h"

namespace headcount::engine {

// Keys and values that earlier steps computed, as they were then: [past, kv_heads, head_dim].
struct PastKeys {
  at::Tensor k;
  at::Tensor v;
};

// After rotary embedding (and q/k norm). All of the model's type, last dimension contiguous.
struct AttentionInput {
  at::Tensor q;  // [tokens, heads, head_dim]
  at::Tensor k;  // [tokens, kv_heads, head_dim]
  at::Tensor v;  // [tokens, kv_heads, head_dim]
  double scale = 1;
  double soft_cap = 0;  // c > 0: the logits are c tanh(scale q.k / c)
  int64_t window = 0;   // w > 0: a token sees its own key and the w - 1 before it; 0: all before it
  const Packing* packing = nullptr;
  std::span<const PastKeys> past;  // one a branch, or empty where no branch has a past
};

// What is taken beside the output. What is not asked for costs nothing.
struct AttentionExtras {
  bool first_weight = false;
  bool entropy = false;
};

// With P the weights of a query head over the keys that the query token sees (its trunk's or past
// ones, its own segment's up to itself, within the window), in float32 arithmetic:
struct AttentionOutput {
  at::Tensor z;             // [tokens, heads, head_dim], P v, of the model's type, contiguous
  at::Tensor first_weight;  // [tokens, heads] float32, P_i0; 0 where it is not seen
  at::Tensor entropy;       // [tokens, heads] float32, nats; rounding may leave it just below 0
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const = 0;
};

std::unique_ptr<Attention> MakeOnePassAttention();
std::unique_ptr<Attention> MakeFlashAttention();
std::unique_ptr<Attention> MakeBlockwiseAttention();
std::unique_ptr<Attention> MakeDenseAttention();

// The fastest for a device and type.
std::unique_ptr<Attention> MakeBestAttention(c10::Device device, c10::ScalarType dtype);

}  // namespace headcount::engine
