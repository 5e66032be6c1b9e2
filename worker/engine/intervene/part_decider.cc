// See part_decider.h.

#include "worker/engine/intervene/part_decider.h"

#include <algorithm>
#include <limits>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/sort.h"
#include "common/base/digest.h"
#include "worker/engine/intervene/philox.h"

namespace headcount::engine {
namespace {

bool PartActs(const RulePart& part, int layer) {
  return part.rule != nullptr &&
         (part.layers.empty() || part.layers[static_cast<size_t>(layer)] != 0);
}

bool IsScored(const RulePart& part) {
  return part.rule != nullptr && (part.rule->select == Rule::Select::kThreshold ||
                                  part.rule->select == Rule::Select::kTopK);
}

bool UsesFirstWeight(const catalog::Score& score) {
  constexpr auto kBit = static_cast<unsigned>(catalog::Measurement::kFirstWeight);
  return (score.expression.measurements() >> kBit & 1u) != 0;
}

void OrInto(at::Tensor& all, const at::Tensor& more) {
  all = all.defined() ? all.logical_or(more) : more;
}

// The scores of the things that are decided: query heads as they are, or a KV head's query heads as
// one. NaN stays NaN.
at::Tensor OfUnits(const at::Tensor& scores, HeadUnit unit, GroupScore group_score,
                   int64_t kv_heads) {
  if (unit == HeadUnit::kQueryHead) return scores;
  const at::Tensor groups = scores.unflatten(-1, {kv_heads, -1});
  switch (group_score) {
    case GroupScore::kMean:
      return groups.mean(-1);
    case GroupScore::kMax:
      return groups.amax(-1);
    case GroupScore::kMin:
      return groups.amin(-1);
  }
  return {};
}

}  // namespace

at::Tensor ToBools(const std::vector<uint8_t>& values, at::IntArrayRef shape, c10::Device device) {
  return at::from_blob(const_cast<uint8_t*>(values.data()), shape, at::kByte)
      .to(at::kBool)
      .to(device);
}

PartDecider::PartDecider(const catalog::ModelConfig& config, std::span<const RulePart> parts,
                         c10::Device device)
    : layers_(config.layers),
      heads_(config.heads),
      kv_heads_(config.kv_heads),
      rows_(parts.size()),
      device_(device),
      fixed_layers_(static_cast<size_t>(config.layers)) {
  AddFixed(parts);
  AddGroups(parts);
}

void PartDecider::AddFixed(std::span<const RulePart> parts) {
  std::vector<uint8_t> fixed(static_cast<size_t>(layers_) * rows_ * static_cast<size_t>(heads_));
  bool any = false;
  const auto set = [&](int layer, size_t row, int head) {
    fixed[(static_cast<size_t>(layer) * rows_ + row) * static_cast<size_t>(heads_) +
          static_cast<size_t>(head)] = 1;
    fixed_layers_[static_cast<size_t>(layer)] = 1;
    any = true;
  };
  for (size_t row = 0; row < rows_; ++row) {
    if (parts[row].rule == nullptr) continue;
    const Rule& rule = *parts[row].rule;
    if (rule.select == Rule::Select::kFixedHeads) {
      for (const Head& head : rule.heads) {
        if (PartActs(parts[row], head.layer)) set(head.layer, row, head.head);
      }
    } else if (rule.select == Rule::Select::kRandom) {
      const uint64_t key = RandomKey(rule.seed, parts[row].sample);
      const int group = rule.unit == HeadUnit::kKvGroup ? heads_ / kv_heads_ : 1;
      for (int layer = 0; layer < layers_; ++layer) {
        if (!PartActs(parts[row], layer)) continue;
        for (int head = 0; head < heads_; ++head) {
          if (RandomDraw(key, layer, head / group) < rule.probability) set(layer, row, head);
        }
      }
    }
  }
  if (any) fixed_ = ToBools(fixed, {layers_, static_cast<int64_t>(rows_), heads_}, device_);
}

void PartDecider::AddGroups(std::span<const RulePart> parts) {
  struct Members {
    Way way;
    std::vector<size_t> rows;
  };
  std::vector<Members> all;
  for (size_t row = 0; row < rows_; ++row) {
    if (!IsScored(parts[row])) continue;
    const Rule& rule = *parts[row].rule;
    const Way way{rule.score, rule.select, rule.unit, rule.group_score};
    auto same = std::find_if(all.begin(), all.end(),
                             [&](const Members& members) { return members.way == way; });
    if (same == all.end()) same = all.insert(all.end(), {way, {}});
    same->rows.push_back(row);
  }
  const auto count = static_cast<int64_t>(rows_);
  for (const Members& members : all) {
    Group group{members.way};
    group.acts_host.resize(static_cast<size_t>(layers_) * rows_);
    std::vector<float> thresholds(static_cast<size_t>(layers_) * rows_);
    std::vector<int64_t> counts(thresholds.size());
    for (size_t row : members.rows) {
      const Rule& rule = *parts[row].rule;
      for (int layer = 0; layer < layers_; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const size_t place = l * rows_ + row;
        thresholds[place] =
            rule.layer_thresholds.empty() ? rule.threshold : rule.layer_thresholds[l];
        counts[place] = rule.top_k;
        group.acts_host[place] = PartActs(parts[row], layer) ? 1 : 0;
      }
    }
    group.acts = ToBools(group.acts_host, {layers_, count, 1}, device_);
    group.limit = members.way.select == Rule::Select::kThreshold
                      ? at::from_blob(thresholds.data(), {layers_, count, 1}, at::kFloat).clone()
                      : at::from_blob(counts.data(), {layers_, count, 1}, at::kLong).clone();
    group.limit = group.limit.to(device_);
    groups_.push_back(std::move(group));
  }
}

bool PartDecider::Acts(const Group& group, int layer, std::span<const int> rows) const {
  const uint8_t* acts = group.acts_host.data() + static_cast<size_t>(layer) * rows_;
  return std::any_of(rows.begin(), rows.end(), [acts](int row) { return acts[row] != 0; });
}

unsigned PartDecider::Measurements(int layer, std::span<const int> rows) const {
  unsigned measurements = 0;
  for (const Group& group : groups_) {
    if (Acts(group, layer, rows)) measurements |= group.way.score->expression.measurements();
  }
  return measurements;
}

Decision PartDecider::Decide(int layer, const MeasurementTensors& measurements,
                             std::span<const int> rows, const at::Tensor& row_ids,
                             const at::Tensor& no_first) const {
  Decision decision;
  if (fixed_layers_[static_cast<size_t>(layer)] != 0) {
    decision.mask = fixed_.select(0, layer).index_select(0, row_ids);
  }
  for (const Group& group : groups_) {
    if (!Acts(group, layer, rows)) continue;
    const Way& way = group.way;
    const at::Tensor scores = OfUnits(EvaluateScore(way.score->expression, measurements), way.unit,
                                      way.group_score, kv_heads_);
    const at::Tensor acts = group.acts.select(0, layer).index_select(0, row_ids);
    const at::Tensor limit = group.limit.select(0, layer).index_select(0, row_ids);
    at::Tensor inactive;  // comparisons are strict, and false for NaN
    if (way.select == Rule::Select::kTopK) {
      inactive = MostInactive(scores, limit, way.score->inactive);
    } else if (way.score->inactive == catalog::Inactive::kBelow) {
      inactive = scores.lt(limit);
    } else {
      inactive = scores.gt(limit);
    }
    at::Tensor not_finite = scores.isfinite().logical_not();
    if (const int64_t each = heads_ / scores.size(-1); each > 1) {
      inactive = inactive.repeat_interleave(each, -1);
      not_finite = not_finite.repeat_interleave(each, -1);
    }
    OrInto(decision.mask, inactive.logical_and(acts));
    not_finite = not_finite.logical_and(acts);
    if (no_first.defined() && UsesFirstWeight(*way.score)) {
      not_finite = not_finite.logical_and(no_first.logical_not());
    }
    OrInto(decision.not_finite, not_finite);
  }
  return decision;
}

at::Tensor MostInactive(const at::Tensor& scores, const at::Tensor& count,
                        catalog::Inactive inactive) {
  const bool below = inactive == catalog::Inactive::kBelow;
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor nan = scores.isnan();
  const at::Tensor ordered = scores.masked_fill(nan, below ? infinity : -infinity);
  const at::Tensor order =
      std::get<1>(at::sort(ordered, /*stable=*/true, /*dim=*/-1, /*descending=*/!below));
  const at::Tensor places =
      at::arange(scores.size(-1), order.options()).unsqueeze(0).expand_as(order).contiguous();
  const at::Tensor rank = at::empty_like(order).scatter_(-1, order, places);
  return rank.lt(count).logical_and_(nan.logical_not());
}

}  // namespace headcount::engine
