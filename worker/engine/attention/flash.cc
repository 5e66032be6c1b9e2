// Attention by fused kernels, and the weights' statistics from their log-sum-exp alone. With s
// q_i.k_j the logits and lse_i their log-sum-exp:
//   P_i0 = exp(s q_i.k_0 - lse_i)
//   entropy_i = -sum_j P_ij ln P_ij = lse_i - sum_j P_ij s q_i.k_j = lse_i - s q_i.(P K)_i
// and P K is the same kernel with K in the place of V.

#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/mul.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/attention/fused_kernel.h"

namespace headcount::engine {
namespace {

// [rows, length, heads, head_dim] <-> [rows, heads, length, head_dim], and the same for [rows,
// length, heads].
at::Tensor SwapTokensAndHeads(const at::Tensor& x) { return x.transpose(1, 2); }

// s q_i.k_0 for all query tokens of a block: [rows, length, heads] float32. q and k as the kernels
// take them, float32.
at::Tensor FirstLogits(const at::Tensor& q, const at::Tensor& k, double scale) {
  const int64_t rows = q.size(0), heads = q.size(1), kv_heads = k.size(1), dim = q.size(3);
  const at::Tensor first = k.select(2, 0)  // [rows, kv_heads, head_dim]
                               .unsqueeze(2)
                               .expand({rows, kv_heads, heads / kv_heads, dim})
                               .reshape({rows, heads, dim, 1});
  return at::matmul(q, first).squeeze(-1).mul_(scale).transpose(1, 2);
}

class FlashAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    std::vector<at::Tensor> z, first_weight, entropy;
    for (const RowBlock& block : input.packing->blocks) {
      const BlockOutput out = One(block, input, extras);
      z.push_back(out.z);
      if (extras.first_weight) first_weight.push_back(out.first_weight);
      if (extras.entropy) entropy.push_back(out.entropy);
    }
    return {Join(z), Join(first_weight), Join(entropy)};
  }

 private:
  using BlockOutput = AttentionOutput;

  // Undefined where nothing was asked for; no copy for a batch of one block.
  static at::Tensor Join(const std::vector<at::Tensor>& parts) {
    if (parts.empty()) return {};
    return parts.size() == 1 ? parts[0] : at::cat(parts);
  }

  static BlockOutput One(const RowBlock& block, const AttentionInput& input,
                         AttentionExtras extras) {
    const at::Tensor q = SwapTokensAndHeads(block.Of(input.q));
    const at::Tensor k = SwapTokensAndHeads(block.Of(input.k));
    const at::Tensor v = SwapTokensAndHeads(block.Of(input.v));
    const FusedResult attended = FusedCausalAttention(q, k, v, input.scale);
    BlockOutput out;
    out.z = SwapTokensAndHeads(attended.output).contiguous().flatten(0, 1);
    if (!extras.first_weight && !extras.entropy) return out;

    const at::Tensor q32 = q.to(at::kFloat);
    const at::Tensor k32 = k.to(at::kFloat);
    if (extras.first_weight) {
      const at::Tensor weight =
          FirstLogits(q32, k32, input.scale).sub(SwapTokensAndHeads(attended.log_sum_exp)).exp_();
      weight.select(1, 0).fill_(
          1);  // one visible key: exactly 1, and entropy 0, not rounding noise
      out.first_weight = weight.flatten(0, 1);
    }
    if (extras.entropy) {
      // Keys can be large (norms of hundreds): a 16-bit P K is off by tenths of nats, so this call
      // is float32.
      const FusedResult keys = FusedCausalAttention(q32, k32, k32, input.scale);
      const at::Tensor mean_logit =
          at::mul(SwapTokensAndHeads(q32), SwapTokensAndHeads(keys.output))
              .sum(-1)
              .mul_(input.scale);
      const at::Tensor entropy = SwapTokensAndHeads(keys.log_sum_exp).sub(mean_logit);
      entropy.select(1, 0).zero_();
      out.entropy = entropy.flatten(0, 1);
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<Attention> MakeFlashAttention() { return std::make_unique<FlashAttention>(); }

}  // namespace headcount::engine
