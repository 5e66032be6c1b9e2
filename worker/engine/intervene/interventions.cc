// See interventions.h.

#include "worker/engine/intervene/interventions.h"

#include <algorithm>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/where.h"

namespace headcount::engine {
namespace {

using Kind = Intervention::Kind;

// [rows, kv_heads, head_dim] -> of the tokens `rows` [n], for each query head: [n, heads,
// head_dim].
at::Tensor ForTokens(const at::Tensor& first_values, const at::Tensor& rows, int64_t heads) {
  const int64_t group = heads / first_values.size(1);
  const at::Tensor of_heads =
      group == 1 ? first_values : first_values.repeat_interleave(group, /*dim=*/1);
  return of_heads.index_select(0, rows);
}

// One form for what means the same, so that rows that mean the same share.
Intervention Canonical(Intervention from) {
  if (from.kind == Kind::kScale && from.scale == 0) from.kind = Kind::kZero;
  if (from.kind != Kind::kScale) from.scale = 0;
  if (from.kind != Kind::kMean) from.means = nullptr;
  return from;
}

}  // namespace

Interventions::Interventions(const catalog::ModelConfig& config, std::span<const Rule> rules,
                             std::span<const Row* const> rows, c10::Device device) {
  std::vector<uint8_t> codes;
  for (const Row* row : rows) {
    const Intervention kind = Canonical(rules[static_cast<size_t>(row->rule)].intervention);
    auto found = std::find(kinds_.begin(), kinds_.end(), kind);
    if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), kind);
    codes.push_back(static_cast<uint8_t>(found - kinds_.begin() + 1));
    needs_first_values_ |= kind.kind == Kind::kFirstValue;
  }
  const auto upload = [&](const std::vector<float>& values) {
    return at::from_blob(const_cast<float*>(values.data()),
                         {config.layers, config.heads, config.head_dim}, at::kFloat)
        .clone()
        .to(device);
  };
  for (const Intervention& kind : kinds_) {
    Means& means = means_.emplace_back();
    if (kind.kind == Kind::kMean) means = {upload(kind.means->rest), upload(kind.means->first)};
  }
  if (kinds_.size() > 1) {
    code_of_row_ = at::from_blob(codes.data(), {static_cast<int64_t>(codes.size()), 1}, at::kByte)
                       .clone()
                       .to(device);
  }
}

at::Tensor Interventions::CodesOf(const at::Tensor& mask, const at::Tensor& row_ids) const {
  const at::Tensor ones = mask.to(at::kByte);
  return code_of_row_.defined() ? ones.mul(code_of_row_.index_select(0, row_ids)) : ones;
}

void Interventions::Apply(int layer, const at::Tensor& codes, const Tokens& tokens,
                          const at::Tensor& first_values, at::Tensor& z) const {
  const at::Tensor of_tokens = codes.index_select(0, tokens.rows).unsqueeze(-1);  // [n, heads, 1]
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const at::Tensor changed = of_tokens.eq(static_cast<int64_t>(i + 1));
    switch (kinds_[i].kind) {
      case Kind::kZero:
        // Filled and not multiplied: a head that is not finite is zeroed too.
        z.masked_fill_(changed, 0);
        break;
      case Kind::kScale:
        z = at::where(changed, z.mul(kinds_[i].scale), z);
        break;
      case Kind::kFirstValue:
        z = at::where(changed, ForTokens(first_values, tokens.rows, z.size(1)), z);
        break;
      case Kind::kMean: {
        const at::Tensor is_first = tokens.positions.eq(0).unsqueeze(-1).unsqueeze(-1);
        const at::Tensor means = at::where(is_first, means_[i].first.select(0, layer).unsqueeze(0),
                                           means_[i].rest.select(0, layer).unsqueeze(0));
        z = at::where(changed, means.to(z.scalar_type()), z);
        break;
      }
    }
  }
}

}  // namespace headcount::engine
