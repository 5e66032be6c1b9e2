// See decider.h.

#include "worker/engine/intervene/decider.h"

#include <algorithm>
#include <limits>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/sort.h"
#include "worker/engine/intervene/philox.h"

namespace headcount::engine {
namespace {

bool RuleActs(const Rule& rule, int layer) {
  return rule.layers.empty() || rule.layers[static_cast<size_t>(layer)] != 0;
}

bool IsScored(Rule::Select select) {
  return select == Rule::Select::kThreshold || select == Rule::Select::kTopK;
}

// A host array of 0 and 1 as bools on the device.
at::Tensor ToBool(std::vector<uint8_t>& values, at::IntArrayRef shape, c10::Device device) {
  return at::from_blob(values.data(), shape, at::kByte).to(at::kBool).to(device);
}

void OrInto(at::Tensor& all, const at::Tensor& more) {
  all = all.defined() ? all.logical_or(more) : more;
}

}  // namespace

Decider::Decider(const catalog::ModelConfig& config, std::span<const Rule> rules,
                 std::span<const Row* const> rows, c10::Device device)
    : layers_(config.layers),
      heads_(config.heads),
      rows_(rows.size()),
      device_(device),
      fixed_layers_(static_cast<size_t>(config.layers)) {
  AddFixed(rules, rows);
  AddGroups(rules, rows);
}

void Decider::AddFixed(std::span<const Rule> rules, std::span<const Row* const> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<uint8_t> fixed(static_cast<size_t>(layers_) * rows.size() *
                             static_cast<size_t>(heads_));
  bool any = false;
  const auto set = [&](int layer, size_t row, int head) {
    fixed[(static_cast<size_t>(layer) * rows.size() + row) * static_cast<size_t>(heads_) +
          static_cast<size_t>(head)] = 1;
    fixed_layers_[static_cast<size_t>(layer)] = 1;
    any = true;
  };
  for (size_t row = 0; row < rows.size(); ++row) {
    const Rule& rule = rules[static_cast<size_t>(rows[row]->rule)];
    if (rule.select == Rule::Select::kFixedHeads) {
      for (const Head& head : rule.heads) {
        if (RuleActs(rule, head.layer)) set(head.layer, row, head.head);
      }
    } else if (rule.select == Rule::Select::kRandom) {
      for (int layer = 0; layer < layers_; ++layer) {
        if (!RuleActs(rule, layer)) continue;
        for (int head = 0; head < heads_; ++head) {
          if (RandomDraw(rows[row]->random_key, layer, head) < rule.probability) {
            set(layer, row, head);
          }
        }
      }
    }
  }
  if (any) fixed_ = ToBool(fixed, {layers_, count, heads_}, device_);
}

void Decider::AddGroups(std::span<const Rule> rules, std::span<const Row* const> rows) {
  struct Members {
    const catalog::Score* score;
    Rule::Select select;
    std::vector<size_t> rows;
  };
  std::vector<Members> all;
  for (size_t row = 0; row < rows.size(); ++row) {
    const Rule& rule = rules[static_cast<size_t>(rows[row]->rule)];
    if (!IsScored(rule.select)) continue;
    auto same = std::find_if(all.begin(), all.end(), [&](const Members& members) {
      return members.score == rule.score && members.select == rule.select;
    });
    if (same == all.end()) same = all.insert(all.end(), {rule.score, rule.select, {}});
    same->rows.push_back(row);
  }
  const auto count = static_cast<int64_t>(rows.size());
  for (const Members& members : all) {
    Group group{members.score, members.select};
    group.acts_host.resize(static_cast<size_t>(layers_) * rows.size());
    std::vector<float> thresholds(rows.size());
    std::vector<int64_t> counts(rows.size());
    for (size_t row : members.rows) {
      const Rule& rule = rules[static_cast<size_t>(rows[row]->rule)];
      thresholds[row] = rule.threshold;
      counts[row] = rule.top_k;
      for (int layer = 0; layer < layers_; ++layer) {
        if (!RuleActs(rule, layer)) continue;
        group.acts_host[static_cast<size_t>(layer) * rows.size() + row] = 1;
      }
    }
    group.acts = ToBool(group.acts_host, {layers_, count, 1}, device_);
    group.limit = members.select == Rule::Select::kThreshold
                      ? at::from_blob(thresholds.data(), {count, 1}, at::kFloat).clone()
                      : at::from_blob(counts.data(), {count, 1}, at::kLong).clone();
    group.limit = group.limit.to(device_);
    groups_.push_back(std::move(group));
  }
}

bool Decider::Acts(const Group& group, int layer, std::span<const int> rows) const {
  const uint8_t* acts = group.acts_host.data() + static_cast<size_t>(layer) * rows_;
  return std::any_of(rows.begin(), rows.end(), [acts](int row) { return acts[row] != 0; });
}

unsigned Decider::Measurements(int layer, std::span<const int> rows) const {
  unsigned measurements = 0;
  for (const Group& group : groups_) {
    if (Acts(group, layer, rows)) measurements |= group.score->expression.measurements();
  }
  return measurements;
}

Decision Decider::Decide(int layer, const MeasurementTensors& measurements,
                         std::span<const int> rows, const at::Tensor& row_ids) const {
  Decision decision;
  if (fixed_layers_[static_cast<size_t>(layer)] != 0) {
    decision.mask = fixed_.select(0, layer).index_select(0, row_ids);
  }
  for (const Group& group : groups_) {
    if (!Acts(group, layer, rows)) continue;
    const at::Tensor scores = EvaluateScore(group.score->expression, measurements);
    const at::Tensor acts = group.acts.select(0, layer).index_select(0, row_ids);
    const at::Tensor limit = group.limit.index_select(0, row_ids);
    at::Tensor inactive;  // comparisons are strict, and false for NaN
    if (group.select == Rule::Select::kTopK) {
      inactive = MostInactive(scores, limit, group.score->inactive);
    } else if (group.score->inactive == catalog::Inactive::kBelow) {
      inactive = scores.lt(limit);
    } else {
      inactive = scores.gt(limit);
    }
    OrInto(decision.mask, inactive.logical_and(acts));
    OrInto(decision.not_finite, scores.isfinite().logical_not().logical_and(acts));
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
