// See rules.h.

#include "server/plan/rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace headcount::plan {

std::vector<uint8_t> LayerFlags(const v1::LayerSelection& layers, int model_layers) {
  if (layers.include().empty() && layers.exclude().empty()) return {};
  const bool include = !layers.include().empty();
  std::vector<uint8_t> flags(model_layers, include ? 0 : 1);
  for (int layer : include ? layers.include() : layers.exclude()) flags[layer] = include ? 1 : 0;
  if (std::find(flags.begin(), flags.end(), 0) == flags.end()) return {};
  return flags;
}

results::ScorePool PoolOf(const v1::LayerSelection& layers, v1::Unit unit,
                          v1::GroupScore group_score, const catalog::ModelConfig& model) {
  results::ScorePool pool{.layers = LayerFlags(layers, model.layers)};
  if (unit != v1::UNIT_KV_GROUP) return pool;
  pool.kv_heads = model.kv_heads;
  if (group_score != v1::GROUP_SCORE_UNSPECIFIED) pool.group_score = group_score;
  return pool;
}

void SetUnit(v1::Unit unit, v1::GroupScore group_score, v1::ResolvedRule* rule) {
  if (unit != v1::UNIT_KV_GROUP) return;
  rule->set_unit(unit);
  if (group_score != v1::GROUP_SCORE_MEAN) rule->set_group_score(group_score);
}

v1::ResolvedRule NewRule(const std::string& label, double nominal_fraction,
                         const std::vector<uint8_t>& layers) {
  v1::ResolvedRule rule;
  rule.set_label(label);
  rule.set_nominal_fraction(nominal_fraction);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer]) rule.add_layers(static_cast<int>(layer));
  }
  return rule;
}

void SetIntervention(const v1::Intervention& intervention, v1::ResolvedRule* rule) {
  switch (intervention.kind_case()) {
    case v1::Intervention::kScale:
      if (static_cast<float>(intervention.scale()) == 0) return;
      rule->mutable_label()->append(absl::StrCat(" scale=", intervention.scale()));
      break;
    case v1::Intervention::kMean:
      rule->mutable_label()->append(" mean");
      break;
    case v1::Intervention::kFirstValue:
      rule->mutable_label()->append(" first_value");
      break;
    default:
      return;
  }
  *rule->mutable_intervention() = intervention;
}

v1::ResolvedRule BaselineRule() {
  v1::ResolvedRule rule = NewRule("baseline", 0, {});
  rule.set_none(true);
  return rule;
}

void SelectFraction(const UserScores& scores, const catalog::Score& score, double fraction,
                    double threshold, v1::ResolvedRule* rule) {
  if (fraction == 0) {
    rule->set_none(true);
    return;
  }
  v1::ResolvedThreshold* resolved = rule->mutable_threshold();
  scores.Set(score, resolved);
  resolved->set_value(static_cast<float>(threshold));
}

}  // namespace headcount::plan
