// See decider.h.

#include "worker/engine/intervene/decider.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/where.h"
#include "ATen/ops/zeros.h"
#include "common/base/digest.h"
#include "worker/engine/intervene/philox.h"

namespace headcount::engine {
namespace {

// Layers in which both may act; empty: all.
std::vector<uint8_t> Both(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.empty()) return b;
  std::vector<uint8_t> out = a;
  for (size_t layer = 0; layer < b.size(); ++layer) out[layer] &= b[layer];
  return out;
}

size_t PartCount(const Rule& rule) {
  return rule.select == Rule::Select::kCombined ? rule.parts.size() : 1;
}

// The i-th part of a row's rule, or none.
RulePart PartOf(const Rule& rule, size_t i, const Row& row) {
  if (i >= PartCount(rule)) return {};
  if (rule.select != Rule::Select::kCombined) return {&rule, rule.layers, row.sample};
  return {&rule.parts[i], Both(rule.layers, rule.parts[i].layers), row.sample};
}

}  // namespace

Decider::Decider(const catalog::ModelConfig& config, std::span<const Rule> rules,
                 std::span<const Row* const> rows, c10::Device device)
    : layers_(config.layers), heads_(config.heads), kv_heads_(config.kv_heads), device_(device) {
  size_t most = 1;
  for (const Row* row : rows) {
    most = std::max(most, PartCount(rules[static_cast<size_t>(row->rule)]));
  }
  std::vector<RulePart> parts;
  for (size_t i = 0; i < most; ++i) {
    parts.clear();
    for (const Row* row : rows) {
      parts.push_back(PartOf(rules[static_cast<size_t>(row->rule)], i, *row));
    }
    parts_.emplace_back(config, parts, device);
  }
  for (size_t r = 0; r < rules.size(); ++r) {
    if (rules[r].select != Rule::Select::kCombined) continue;
    parts.clear();
    std::vector<uint8_t> has_it;
    for (const Row* row : rows) {
      has_it.push_back(static_cast<size_t>(row->rule) == r ? 1 : 0);
      parts.push_back({nullptr, {}, row->sample});
    }
    AddCombination(rules[r], parts, std::move(has_it));
  }
}

void Decider::AddCombination(const Rule& rule, std::span<const RulePart> parts,
                             std::vector<uint8_t> rows) {
  if (std::find(rows.begin(), rows.end(), 1) == rows.end()) return;
  Combination combination{rule.steps, std::move(rows), {}, {}};
  combination.rows =
      ToBools(combination.has_it, {static_cast<int64_t>(combination.has_it.size()), 1}, device_);
  for (const CombineStep& step : rule.steps) {
    if (step.op != CombineStep::Op::kRandomInLayer) continue;
    combination.orders.push_back(RandomOrder(step, parts, combination.has_it));
  }
  combinations_.push_back(std::move(combination));
}

// Heads (or KV heads) in the order of their draws, of equals the lower first.
at::Tensor Decider::RandomOrder(const CombineStep& step, std::span<const RulePart> parts,
                                std::span<const uint8_t> rows) const {
  const int units = step.unit == HeadUnit::kKvGroup ? kv_heads_ : heads_;
  const auto width = static_cast<size_t>(units);
  std::vector<int64_t> places(static_cast<size_t>(layers_) * rows.size() * width);
  std::vector<double> draws(width);
  std::vector<size_t> order(width);
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] == 0) continue;
    const uint64_t key = RandomKey(step.seed, parts[row].sample);
    for (int layer = 0; layer < layers_; ++layer) {
      for (int unit = 0; unit < units; ++unit) {
        draws[static_cast<size_t>(unit)] = RandomDraw(key, layer, unit);
      }
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return draws[a] < draws[b]; });
      int64_t* of_layer = places.data() + (static_cast<size_t>(layer) * rows.size() + row) * width;
      for (size_t place = 0; place < width; ++place) {
        of_layer[order[place]] = static_cast<int64_t>(place);
      }
    }
  }
  return at::from_blob(places.data(), {layers_, static_cast<int64_t>(rows.size()), units},
                       at::kLong)
      .clone()
      .to(device_);
}

unsigned Decider::Measurements(int layer, std::span<const int> rows) const {
  unsigned measurements = 0;
  for (const PartDecider& part : parts_) measurements |= part.Measurements(layer, rows);
  return measurements;
}

Decision Decider::Decide(int layer, const MeasurementTensors& measurements,
                         std::span<const int> rows, const at::Tensor& row_ids,
                         const at::Tensor& no_first) const {
  if (combinations_.empty()) {
    return parts_[0].Decide(layer, measurements, rows, row_ids, no_first);
  }
  Decision decision;
  std::vector<at::Tensor> masks;
  bool any = false;
  for (const PartDecider& part : parts_) {
    Decision of_part = part.Decide(layer, measurements, rows, row_ids, no_first);
    any |= of_part.mask.defined();
    masks.push_back(std::move(of_part.mask));
    if (!of_part.not_finite.defined()) continue;
    decision.not_finite = decision.not_finite.defined()
                              ? decision.not_finite.logical_or(of_part.not_finite)
                              : of_part.not_finite;
  }
  if (!any) return decision;
  for (at::Tensor& mask : masks) {
    if (mask.defined()) continue;
    mask = at::zeros({static_cast<int64_t>(rows.size()), heads_},
                     at::TensorOptions(at::kBool).device(device_));
  }
  decision.mask = masks[0];
  for (const Combination& combination : combinations_) {
    const bool here = std::any_of(rows.begin(), rows.end(), [&](int row) {
      return combination.has_it[static_cast<size_t>(row)] != 0;
    });
    if (!here) continue;
    decision.mask = at::where(combination.rows.index_select(0, row_ids),
                              Combine(combination, layer, masks, row_ids), decision.mask);
  }
  return decision;
}

at::Tensor Decider::Combine(const Combination& combination, int layer,
                            std::span<const at::Tensor> part_masks,
                            const at::Tensor& row_ids) const {
  std::vector<at::Tensor> stack;
  size_t random = 0;
  for (const CombineStep& step : combination.steps) {
    if (step.op == CombineStep::Op::kPart) {
      stack.push_back(part_masks[static_cast<size_t>(step.part)]);
      continue;
    }
    const at::Tensor top = stack.back();
    stack.pop_back();
    switch (step.op) {
      case CombineStep::Op::kPart:
        break;
      case CombineStep::Op::kAnd:
        stack.back() = stack.back().logical_and(top);
        break;
      case CombineStep::Op::kOr:
        stack.back() = stack.back().logical_or(top);
        break;
      case CombineStep::Op::kAndNot:
        stack.back() = stack.back().logical_and(top.logical_not());
        break;
      case CombineStep::Op::kRandomInLayer: {
        const at::Tensor order =
            combination.orders[random++].select(0, layer).index_select(0, row_ids);
        const int64_t units = order.size(-1), each = heads_ / units;
        const at::Tensor lost = each == 1 ? top : top.unflatten(-1, {units, each}).any(-1);
        const at::Tensor drawn = order.lt(lost.sum(-1, /*keepdim=*/true));
        stack.push_back(each == 1 ? drawn : drawn.repeat_interleave(each, -1));
        break;
      }
    }
  }
  return stack.back();
}

}  // namespace headcount::engine
