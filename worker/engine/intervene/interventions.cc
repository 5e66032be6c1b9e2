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
  return from;
}

}  // namespace

Interventions::Interventions(std::span<const Rule> rules, std::span<const Row* const> rows,
                             c10::Device device) {
  std::vector<uint8_t> codes;
  for (const Row* row : rows) {
    const Intervention kind = Canonical(rules[static_cast<size_t>(row->rule)].intervention);
    auto found = std::find(kinds_.begin(), kinds_.end(), kind);
    if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), kind);
    codes.push_back(static_cast<uint8_t>(found - kinds_.begin() + 1));
    needs_first_values_ |= kind.kind == Kind::kFirstValue;
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

void Interventions::Apply(const at::Tensor& codes, const at::Tensor& rows,
                          const at::Tensor& first_values, at::Tensor& z) const {
  const at::Tensor of_tokens = codes.index_select(0, rows).unsqueeze(-1);  // [n, heads, 1]
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
        z = at::where(changed, ForTokens(first_values, rows, z.size(1)), z);
        break;
    }
  }
}

}  // namespace headcount::engine
