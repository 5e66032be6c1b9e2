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

class DenseAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    const int64_t group = input.q.size(1) / input.k.size(1);
    std::vector<at::Tensor> z, first_weight, entropy;
    for (const RowBlock& block : input.packing->blocks) {
      const at::Tensor q = block.Of(input.q).transpose(1, 2).to(at::kFloat);
      const at::Tensor k = Repeat(block.Of(input.k), group);
      const at::Tensor v = Repeat(block.Of(input.v), group);
      const at::Tensor hidden =  // keys after the query
          at::ones({block.length, block.length}, q.options().dtype(at::kBool)).triu_(1);
      const at::Tensor p = at::matmul(q, k.transpose(-2, -1))
                               .mul_(input.scale)
                               .masked_fill_(hidden, -std::numeric_limits<float>::infinity())
                               .softmax(-1);  // [rows, heads, length, length]
      z.push_back(at::matmul(p, v).transpose(1, 2).flatten(0, 1).to(input.q.scalar_type()));
      first_weight.push_back(p.select(-1, 0).transpose(1, 2).flatten(0, 1));
      entropy.push_back(at::xlogy(p, p).sum(-1).neg_().transpose(1, 2).flatten(0, 1));
    }
    AttentionOutput out;
    out.z = at::cat(z).contiguous();
    if (extras.first_weight) out.first_weight = at::cat(first_weight);
    if (extras.entropy) out.entropy = at::cat(entropy);
    return out;
  }

 private:
  // [rows, length, kv_heads, head_dim] -> [rows, heads, length, head_dim] float32.
  static at::Tensor Repeat(const at::Tensor& x, int64_t group) {
    return x.transpose(1, 2).to(at::kFloat).repeat_interleave(group, 1);
  }
};

}  // namespace

std::unique_ptr<Attention> MakeDenseAttention() { return std::make_unique<DenseAttention>(); }

}  // namespace headcount::engine
