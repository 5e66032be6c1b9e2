// Attention in plain matrix products over blocks of keys, in float32, with what fused kernels do
// not have: sliding windows and soft caps. With l the logits of a query, m their maximum so far,
// L = sum exp(l - m), W = sum exp(l - m) (l - m) and O = sum exp(l - m) v, each block of keys
// brings the state (m, L, W, O) of its queries up to date; at the end
//   P v = O / L,   P_0 = exp(l_0 - m) / L,   entropy = ln L - W / L
// Memory is queries x a block of keys. Runs on every device and type.
//
// A branch's queries go over the keys of its trunk or past, then over their own segment's.

#include <algorithm>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/full.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/maximum.h"
#include "ATen/ops/zeros.h"
#include "worker/engine/attention/attention.h"

namespace headcount::engine {
namespace {

// Logits that are held at a time, and the keys of a block.
constexpr int64_t kLogitsCpu = int64_t{1} << 21;
constexpr int64_t kLogitsAccelerator = int64_t{1} << 26;
constexpr int64_t kBlockKeys = 512;

// Below every real logit; finite, so that differences are.
constexpr double kHidden = -1e30;

class Blockwise {
 public:
  Blockwise(const AttentionInput& input, AttentionExtras extras) : input_(input), extras_(extras) {
    const int64_t tokens = input.q.size(0), heads = input.q.size(1), dim = input.q.size(2);
    const at::TensorOptions floats = input.q.options().dtype(at::kFloat);
    max_ = at::full({tokens, heads}, kHidden, floats);
    sum_ = at::zeros({tokens, heads}, floats);
    weighted_ = at::zeros({tokens, heads}, floats);
    output_ = at::zeros({tokens, heads, dim}, floats);
    first_ = at::full({tokens, heads}, kHidden, floats);
  }

  AttentionOutput Run() {
    const Packing& packing = *input_.packing;
    const Layout& layout = packing.layout;
    for (const TrunkBlock& block : packing.trunks) OverTrunk(block);
    for (size_t b = 0; b < input_.past.size(); ++b) {
      const Layout::Branch& branch = layout.branches[b];
      if (branch.past == 0) continue;
      OverBefore(packing.begins[layout.trunks.size() + b], branch.length, input_.past[b].k,
                 input_.past[b].v);
    }
    for (const SegmentBlock& block : packing.blocks) OverSegments(block);
    AttentionOutput out;
    const at::Tensor scale = sum_.reciprocal();
    out.z = output_.mul_(scale.unsqueeze(-1)).to(input_.q.scalar_type());
    if (extras_.first_weight) out.first_weight = first_.sub(max_).exp_().mul_(scale);
    if (extras_.entropy) out.entropy = sum_.log().sub_(weighted_.mul_(scale));
    return out;
  }

 private:
  struct Queries {
    int64_t begin;     // of the first segment, among the batch's tokens
    int64_t segments;  // each `length` tokens, one after the other
    int64_t length;
  };

  // The tokens of all branches of a trunk, one branch after the other, see the trunk's keys.
  void OverTrunk(const TrunkBlock& block) {
    OverBefore(block.begin, block.tokens, input_.k.narrow(0, block.trunk, block.trunk_tokens),
               input_.v.narrow(0, block.trunk, block.trunk_tokens));
  }

  // Tokens [begin, begin + tokens), all after the keys, which start at position 0.
  void OverBefore(int64_t begin, int64_t tokens, const at::Tensor& k, const at::Tensor& v) {
    const int64_t count = k.size(0);
    const at::Tensor positions = input_.packing->positions.narrow(0, begin, tokens);
    // Nobody sees keys that even the earliest query, at position `count` or later, has left behind.
    const int64_t first = input_.window > 0 ? std::max<int64_t>(0, count - input_.window + 1) : 0;
    Go({begin, 1, tokens}, positions, k.unsqueeze(0), v.unsqueeze(0), first, count,
       /*own=*/false, /*has_first=*/true);
  }

  void OverSegments(const SegmentBlock& block) {
    const at::Tensor positions = at::arange(block.length, input_.packing->positions.options());
    Go({block.begin, block.segments, block.length}, positions, block.Of(input_.k),
       block.Of(input_.v), 0, block.length, /*own=*/true, block.starts_input);
  }

  // Brings the state of the queries up to date with keys [first, count) of k and v [segments, keys,
  // kv_heads, head_dim]. `positions` [length] are the queries', counted as the keys are. `own`:
  // query i of a segment sees no key after i. `has_first`: key 0 is at position 0 of the input.
  void Go(const Queries& queries, const at::Tensor& positions, const at::Tensor& k,
          const at::Tensor& v, int64_t first, int64_t count, bool own, bool has_first) {
    const int64_t most = input_.q.is_cpu() ? kLogitsCpu : kLogitsAccelerator;
    const int64_t rows =
        std::clamp<int64_t>(most / (queries.segments * input_.q.size(1) * kBlockKeys), 1, 256);
    for (int64_t row = 0; row < queries.length; row += rows) {
      const int64_t some = std::min(rows, queries.length - row);
      int64_t from = first, to = count;
      if (own) {
        to = row + some;
        if (input_.window > 0) from = std::max<int64_t>(0, row - input_.window + 1);
      }
      for (int64_t key = from; key < to; key += kBlockKeys) {
        const int64_t keys = std::min(kBlockKeys, to - key);
        Block(queries, row, some, positions, k.narrow(1, key, keys), v.narrow(1, key, keys), key,
              own, has_first && key == 0);
      }
    }
  }

  // [tokens, heads, ...] of the batch -> rows [row, row + some) of every segment, as [segments,
  // kv_heads, group * some, ...].
  at::Tensor Rows(const at::Tensor& values, const Queries& queries, int64_t row,
                  int64_t some) const {
    const int64_t kv_heads = input_.k.size(1);
    at::Tensor part = values.narrow(0, queries.begin, queries.segments * queries.length)
                          .unflatten(0, {queries.segments, queries.length})
                          .narrow(1, row, some)
                          .unflatten(2, {kv_heads, values.size(1) / kv_heads});
    // [segments, some, kv_heads, group, ...] -> [segments, kv_heads, group, some, ...]
    part = part.permute(values.dim() == 3 ? at::IntArrayRef({0, 2, 3, 1, 4})
                                          : at::IntArrayRef({0, 2, 3, 1}));
    return part;
  }

  void Block(const Queries& queries, int64_t row, int64_t some, const at::Tensor& positions,
             const at::Tensor& k, const at::Tensor& v, int64_t key, bool own, bool has_first) {
    const int64_t group = input_.q.size(1) / input_.k.size(1), keys = k.size(1);
    const auto folded = [&](const at::Tensor& x) { return x.flatten(2, 3); };
    const auto unfolded = [&](const at::Tensor& x) { return x.unflatten(2, {group, some}); };
    const at::Tensor q = folded(Rows(input_.q, queries, row, some).to(at::kFloat));
    at::Tensor logits =  // [segments, kv_heads, group * some, keys]
        at::matmul(q, k.permute({0, 2, 3, 1}).to(at::kFloat)).mul_(input_.scale);
    if (input_.soft_cap > 0) logits.div_(input_.soft_cap).tanh_().mul_(input_.soft_cap);
    logits = unfolded(logits);
    const at::Tensor query = positions.narrow(0, row, some).unsqueeze(1);
    const at::Tensor place = at::arange(key, key + keys, positions.options());
    at::Tensor hidden;
    if (own) hidden = place.gt(query);
    if (input_.window > 0) {
      const at::Tensor behind = place.le(query.sub(input_.window));
      hidden = hidden.defined() ? hidden.logical_or(behind) : behind;
    }
    if (hidden.defined()) logits.masked_fill_(hidden, kHidden);
    if (has_first) Rows(first_, queries, row, some).copy_(logits.select(-1, 0));

    at::Tensor max = Rows(max_, queries, row, some), sum = Rows(sum_, queries, row, some);
    at::Tensor weighted = Rows(weighted_, queries, row, some);
    at::Tensor output = Rows(output_, queries, row, some);
    const at::Tensor new_max = at::maximum(max, logits.amax(-1));
    const at::Tensor change = max.sub(new_max);
    const at::Tensor correction = change.exp();
    logits.sub_(new_max.unsqueeze(-1));
    at::Tensor weights = logits.exp();
    // A query that sees no key so far has a maximum that is none.
    if (hidden.defined()) weights.masked_fill_(hidden, 0);
    weighted.addcmul_(change, sum).mul_(correction).add_(logits.mul_(weights).sum(-1));
    sum.mul_(correction).add_(weights.sum(-1));
    const at::Tensor more = at::matmul(folded(weights), v.transpose(1, 2).to(at::kFloat));
    output.mul_(correction.unsqueeze(-1)).add_(unfolded(more));
    max.copy_(new_max);
  }

  const AttentionInput& input_;
  AttentionExtras extras_;
  // Of all queries, [tokens, heads, ...] float32:
  at::Tensor max_, sum_, weighted_, output_;
  at::Tensor first_;  // logits of the key at position 0
};

class BlockwiseAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    return Blockwise(input, extras).Run();
  }
};

}  // namespace

std::unique_ptr<Attention> MakeBlockwiseAttention() {
  return std::make_unique<BlockwiseAttention>();
}

}  // namespace headcount::engine
