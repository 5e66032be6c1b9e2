// See fused_kernel.h.

#include "worker/engine/attention/fused_kernel.h"

#include <limits>
#include <optional>
#include <tuple>

#include "ATen/ops/_scaled_dot_product_efficient_attention.h"
#include "ATen/ops/_scaled_dot_product_flash_attention.h"
#include "ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h"
#include "ATen/ops/item.h"

namespace headcount::engine {
namespace {

constexpr double kNoDropout = 0.0;

// The CPU kernel reads each KV head for its whole group by itself.
FusedResult OnCpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                  bool causal) {
  auto [output, lse] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, kNoDropout, causal,
                                                                       std::nullopt, scale);
  // It answers a query that is not a number with zeros, which would hide the damage: put it back.
  const at::Tensor nan = q.sum(-1).isnan();  // [rows, heads, length]
  if (nan.any().item<bool>()) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    output.masked_fill_(nan.unsqueeze(-1), kNan);
    lse.masked_fill_(nan, kNan);
  }
  return {output, lse.to(at::kFloat)};
}

FusedResult OnAccelerator(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          double scale, bool causal) {
  const int64_t group = q.size(1) / k.size(1);
  const at::Tensor keys = group == 1 ? k : k.repeat_interleave(group, 1);
  const at::Tensor values = group == 1 ? v : v.repeat_interleave(group, 1);
  if (q.scalar_type() == at::kFloat) {
    // Flash kernels there are 16 bit only. This one pads its log-sum-exp to a multiple of 32
    // queries.
    const auto result = at::_scaled_dot_product_efficient_attention(
        q, keys, values, std::nullopt, /*compute_log_sumexp=*/true, kNoDropout, causal, scale);
    return {std::get<0>(result), std::get<1>(result).narrow(-1, 0, q.size(2))};
  }
  const auto result = at::_scaled_dot_product_flash_attention(q, keys, values, kNoDropout, causal,
                                                              /*return_debug_mask=*/false, scale);
  return {std::get<0>(result), std::get<1>(result).narrow(-1, 0, q.size(2))};
}

}  // namespace

FusedResult FusedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, Visible visible) {
  const bool causal = visible == Visible::kUpToItself;
  return q.is_cpu() ? OnCpu(q, k, v, scale, causal) : OnAccelerator(q, k, v, scale, causal);
}

}  // namespace headcount::engine
