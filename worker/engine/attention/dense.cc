// Attention as its definition says, in float32, with the weights written out: the reference of the
// tests. Memory grows with the square of the length.

#include <limits>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/softmax.h"
#include "ATen/ops/xlogy.h"
#include "worker/engine/attention/attention.h"

namespace headcount::engine {
namespace {

// Tokens [begin, begin + length), of a trunk, or of a branch with the tokens of its trunk.
struct Range {
  int64_t begin = 0;
  int64_t length = 0;
};

class DenseAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    const Layout& layout = input.packing->layout;
    const std::vector<int64_t>& begins = input.packing->begins;
    std::vector<AttentionOutput> parts;
    for (size_t t = 0; t < layout.trunks.size(); ++t) {
      parts.push_back(One(input, {}, {begins[t], layout.trunks[t]}));
    }
    for (size_t b = 0; b < layout.branches.size(); ++b) {
      const Layout::Branch& branch = layout.branches[b];
      Range trunk;
      if (branch.trunk != Layout::kNoTrunk) {
        const auto t = static_cast<size_t>(branch.trunk);
        trunk = {begins[t], layout.trunks[t]};
      }
      parts.push_back(One(input, trunk, {begins[layout.trunks.size() + b], branch.length}));
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
  static AttentionOutput One(const AttentionInput& input, Range trunk, Range own) {
    const int64_t group = input.q.size(1) / input.k.size(1);
    const at::Tensor q = input.q.narrow(0, own.begin, own.length).transpose(0, 1).to(at::kFloat);
    const at::Tensor k = Keys(input.k, trunk, own, group);
    const at::Tensor v = Keys(input.v, trunk, own, group);
    const at::Tensor hidden =  // keys after the query
        at::ones({own.length, trunk.length + own.length}, q.options().dtype(at::kBool))
            .triu_(trunk.length + 1);
    const at::Tensor p = at::matmul(q, k.transpose(-2, -1))
                             .mul_(input.scale)
                             .masked_fill_(hidden, -std::numeric_limits<float>::infinity())
                             .softmax(-1);  // [heads, own tokens, all tokens]
    return {at::matmul(p, v).transpose(0, 1).to(input.q.scalar_type()), p.select(-1, 0).t(),
            at::xlogy(p, p).sum(-1).neg_().t()};
  }

  // Of all tokens of an input, for each query head: [heads, tokens, head_dim] float32.
  static at::Tensor Keys(const at::Tensor& x, Range trunk, Range own, int64_t group) {
    return at::cat({x.narrow(0, trunk.begin, trunk.length), x.narrow(0, own.begin, own.length)})
        .transpose(0, 1)
        .to(at::kFloat)
        .repeat_interleave(group, 0);
  }
};

}  // namespace

std::unique_ptr<Attention> MakeDenseAttention() { return std::make_unique<DenseAttention>(); }

}  // namespace headcount::engine
