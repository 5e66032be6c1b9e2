// Attention by fused kernels, and the weights' statistics from their log-sum-exp alone. With s
// q_i.k_j the logits and lse_i their log-sum-exp:
//   P_i0 = exp(s q_i.k_0 - lse_i)
//   entropy_i = -sum_j P_ij ln P_ij = lse_i - sum_j P_ij s q_i.k_j = lse_i - s q_i.(P K)_i
// and P K is the same kernel with K in the place of V.
//
// A branch sees its trunk's keys (or those of its past) and its own. Each part is a call of its
// own, the trunk's with the tokens of all its branches as one block of queries: no key is copied.
// With lse_t and lse_o of the two parts, the weights on the trunk sum to w = sigmoid(lse_t -
// lse_o), so
//   P v = w (P_t v) + (1 - w) (P_o v)   and   lse = ln(exp lse_t + exp lse_o).

#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/lerp.h"
#include "ATen/ops/logaddexp.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/mul.h"
#include "ATen/ops/sigmoid.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/attention/fused_kernel.h"

namespace headcount::engine {
namespace {

// [segments, length, heads, head_dim] <-> [segments, heads, length, head_dim], and the same for
// [segments, length, heads].
at::Tensor SwapTokensAndHeads(const at::Tensor& x) { return x.transpose(1, 2); }

struct Attended {
  at::Tensor value;        // [tokens, heads, head_dim], of the inputs' type, contiguous
  at::Tensor log_sum_exp;  // [tokens, heads] float32
};

// q over [segments, length, heads, head_dim], k and v likewise with KV heads.
Attended Call(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
              Visible visible) {
  const FusedResult result = FusedAttention(SwapTokensAndHeads(q), SwapTokensAndHeads(k),
                                            SwapTokensAndHeads(v), scale, visible);
  return {SwapTokensAndHeads(result.output).contiguous().flatten(0, 1),
          SwapTokensAndHeads(result.log_sum_exp).flatten(0, 1)};
}

// What every segment's tokens see of the segment itself.
Attended WithinSegments(const Packing& packing, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, double scale) {
  const auto one = [&](const SegmentBlock& block) {
    return Call(block.Of(q), block.Of(k), block.Of(v), scale, Visible::kUpToItself);
  };
  if (packing.blocks.size() == 1) return one(packing.blocks[0]);
  Attended all{at::empty(q.sizes(), q.options()),
               at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat))};
  for (const SegmentBlock& block : packing.blocks) {
    const Attended part = one(block);
    all.value.narrow(0, block.begin, block.tokens()).copy_(part.value);
    all.log_sum_exp.narrow(0, block.begin, block.tokens()).copy_(part.log_sum_exp);
  }
  return all;
}

// The tokens [begin, begin + tokens) and the keys and values that all of them see before their own.
struct Before {
  int64_t begin = 0;
  int64_t tokens = 0;
  at::Tensor k;  // [keys, kv_heads, head_dim]
  at::Tensor v;
};

// Trunks of the batch, and what branches have from earlier steps.
std::vector<Before> AllBefore(const AttentionInput& input) {
  const Packing& packing = *input.packing;
  std::vector<Before> all;
  for (const TrunkBlock& block : packing.trunks) {
    all.push_back({block.begin, block.tokens, input.k.narrow(0, block.trunk, block.trunk_tokens),
                   input.v.narrow(0, block.trunk, block.trunk_tokens)});
  }
  const Layout& layout = packing.layout;
  for (size_t b = 0; b < input.past.size(); ++b) {
    const Layout::Branch& branch = layout.branches[b];
    if (branch.past == 0) continue;
    all.push_back({packing.begins[layout.trunks.size() + b], branch.length, input.past[b].k,
                   input.past[b].v});
  }
  return all;
}

// Adds what tokens see of the keys before their own.
void AddBefore(const Before& before, const at::Tensor& q, double scale, Attended& all) {
  const Attended part = Call(q.narrow(0, before.begin, before.tokens).unsqueeze(0),
                             before.k.unsqueeze(0), before.v.unsqueeze(0), scale, Visible::kAll);
  at::Tensor value = all.value.narrow(0, before.begin, before.tokens);
  at::Tensor lse = all.log_sum_exp.narrow(0, before.begin, before.tokens);
  const at::Tensor weight = part.log_sum_exp.sub(lse).sigmoid_().unsqueeze(-1);
  if (value.scalar_type() == at::kFloat) {
    value.lerp_(part.value, weight);
  } else {
    value.copy_(at::lerp(value.to(at::kFloat), part.value.to(at::kFloat), weight));
  }
  at::logaddexp_out(lse, lse, part.log_sum_exp);
}

Attended Attend(const AttentionInput& input) {
  Attended all = WithinSegments(*input.packing, input.q, input.k, input.v, input.scale);
  for (const Before& before : AllBefore(input)) AddBefore(before, input.q, input.scale, all);
  return all;
}

// The same input in float32, with the keys in the place of the values.
struct KeysAsValues {
  explicit KeysAsValues(const AttentionInput& from) : input(from) {
    input.q = from.q.to(at::kFloat);
    input.k = input.v = from.k.to(at::kFloat);
    for (const PastKeys& keys : from.past) {
      const at::Tensor k = keys.k.defined() ? keys.k.to(at::kFloat) : at::Tensor();
      past.push_back({k, k});
    }
    input.past = past;
  }
  KeysAsValues(const KeysAsValues&) = delete;

  AttentionInput input;
  std::vector<PastKeys> past;
};

// Tokens at position 0 have one visible key: exactly `value`, not rounding noise.
void SetAtFirst(const Packing& packing, const at::Tensor& values, double value) {
  for (const SegmentBlock& block : packing.blocks) {
    if (block.starts_input) block.Of(values).select(1, 0).fill_(value);
  }
}

// s q_i.k_0 of the queries [segments, length, heads, head_dim] and the keys at position 0
// [segments, kv_heads, head_dim]: [segments * length, heads]. All float32.
at::Tensor LogitsOfFirst(const at::Tensor& q, const at::Tensor& first, double scale) {
  const int64_t segments = q.size(0), heads = q.size(2), kv_heads = first.size(1), dim = q.size(3);
  const at::Tensor key = first.unsqueeze(2)
                             .expand({segments, kv_heads, heads / kv_heads, dim})
                             .reshape({segments, heads, dim, 1});
  return at::matmul(SwapTokensAndHeads(q), key)
      .squeeze(-1)
      .mul_(scale)
      .transpose(1, 2)
      .flatten(0, 1);
}

// `input` in float32.
at::Tensor FirstWeight(const AttentionInput& input, const at::Tensor& log_sum_exp) {
  const Packing& packing = *input.packing;
  const at::Tensor weight = at::empty(log_sum_exp.sizes(), log_sum_exp.options());
  for (const SegmentBlock& block : packing.blocks) {
    if (!block.starts_input) continue;
    weight.narrow(0, block.begin, block.tokens())
        .copy_(LogitsOfFirst(block.Of(input.q), block.Of(input.k).select(1, 0), input.scale));
  }
  for (const Before& before : AllBefore(input)) {
    weight.narrow(0, before.begin, before.tokens)
        .copy_(LogitsOfFirst(input.q.narrow(0, before.begin, before.tokens).unsqueeze(0),
                             before.k.narrow(0, 0, 1), input.scale));
  }
  weight.sub_(log_sum_exp).exp_();
  SetAtFirst(packing, weight, 1);
  return weight;
}

class FlashAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    if (input.window > 0 || input.soft_cap > 0) return blockwise_->Run(input, extras);
    const Attended attended = Attend(input);
    AttentionOutput out;
    out.z = attended.value;
    if (!extras.first_weight && !extras.entropy) return out;

    // Keys can be large (norms of hundreds): a 16-bit P K is off by tenths of nats.
    const KeysAsValues float32(input);
    if (extras.first_weight) out.first_weight = FirstWeight(float32.input, attended.log_sum_exp);
    if (extras.entropy) {
      const Attended keys = Attend(float32.input);
      out.entropy = keys.log_sum_exp.sub(at::mul(float32.input.q, keys.value).sum(-1), input.scale);
      SetAtFirst(*input.packing, out.entropy, 0);
    }
    return out;
  }

 private:
  std::unique_ptr<Attention> blockwise_ = MakeBlockwiseAttention();
};

}  // namespace

std::unique_ptr<Attention> MakeFlashAttention() { return std::make_unique<FlashAttention>(); }

}  // namespace headcount::engine
