// Attention as its definition says, in float32, with the weights written out: the reference of the
// tests. Memory grows with the square of the length.

#include <limits>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/ones_like.h"
#include "ATen/ops/softmax.h"
#include "ATen/ops/xlogy.h"
#include "worker/engine/attention/attention.h"

namespace headcount::engine {
namespace {

class DenseAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    const Layout& layout = input.packing->layout;
    const std::vector<int64_t>& begins = input.packing->begins;
    const PastKeys nothing{input.k.narrow(0, 0, 0), input.v.narrow(0, 0, 0)};
    std::vector<AttentionOutput> parts;
    for (size_t t = 0; t < layout.trunks.size(); ++t) {
      parts.push_back(One(input, nothing, begins[t], layout.trunks[t]));
    }
    for (size_t b = 0; b < layout.branches.size(); ++b) {
      const Layout::Branch& branch = layout.branches[b];
      PastKeys before = nothing;
      if (branch.trunk != Layout::kNoTrunk) {
        const auto t = static_cast<size_t>(branch.trunk);
        before = {input.k.narrow(0, begins[t], layout.trunks[t]),
                  input.v.narrow(0, begins[t], layout.trunks[t])};
      } else if (branch.past > 0) {
        before = input.past[b];
      }
      parts.push_back(One(input, before, begins[layout.trunks.size() + b], branch.length));
    }
    std::vector<at::Tensor> z, first_weight, entropy;
    for (const AttentionOutput& part : parts) {
      z.push_back(part.z);
      first_weight.push_back(part.first_weight);
      entropy.push_back(part.entropy);
    }
    AttentionOutput out;
    out.z = at::cat(z).contiguous();
    if (extras.first_weight) out.first_weight = at::cat(first_weight);
    if (extras.entropy) out.entropy = at::cat(entropy);
    return out;
  }

 private:
  // The `length` tokens from `begin` on, which see all of `before`.
  static AttentionOutput One(const AttentionInput& input, const PastKeys& before, int64_t begin,
                             int64_t length) {
    const int64_t group = input.q.size(1) / input.k.size(1), past = before.k.size(0);
    const auto all = [&](const at::Tensor& first, const at::Tensor& own) {
      return at::cat({first, own.narrow(0, begin, length)})
          .transpose(0, 1)
          .to(at::kFloat)
          .repeat_interleave(group, 0);  // [heads, past + length, head_dim]
    };
    const at::Tensor q = input.q.narrow(0, begin, length).transpose(0, 1).to(at::kFloat);
    const at::Tensor k = all(before.k, input.k), v = all(before.v, input.v);
    at::Tensor hidden =  // keys after the query
        at::ones({length, past + length}, q.options().dtype(at::kBool)).triu_(past + 1);
    // keys that the window has left behind
    if (input.window > 0) hidden.logical_or_(at::ones_like(hidden).tril_(past - input.window));
    at::Tensor logits = at::matmul(q, k.transpose(-2, -1)).mul_(input.scale);
    if (input.soft_cap > 0) logits.div_(input.soft_cap).tanh_().mul_(input.soft_cap);
    const at::Tensor p = logits.masked_fill_(hidden, -std::numeric_limits<float>::infinity())
                             .softmax(-1);  // [heads, length, past + length]
    return {at::matmul(p, v).transpose(0, 1).to(input.q.scalar_type()), p.select(-1, 0).t(),
            at::xlogy(p, p).sum(-1).neg_().t()};
  }
};

}  // namespace

std::unique_ptr<Attention> MakeDenseAttention() { return std::make_unique<DenseAttention>(); }

}  // namespace headcount::engine
