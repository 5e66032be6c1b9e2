// See rules.h.

#include "server/plan/rules.h"

#include <algorithm>

namespace headcount::plan {

std::vector<uint8_t> LayerFlags(const v1::LayerSelection& layers, int model_layers) {
  if (layers.include().empty() && layers.exclude().empty()) return {};
  const bool include = !layers.include().empty();
  std::vector<uint8_t> flags(model_layers, include ? 0 : 1);
  for (int layer : include ? layers.include() : layers.exclude()) flags[layer] = include ? 1 : 0;
  if (std::find(flags.begin(), flags.end(), 0) == flags.end()) return {};
  return flags;
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

void SelectFraction(const std::string& score, double fraction, double threshold,
                    v1::ResolvedRule* rule) {
  if (fraction == 0) {
    rule->set_none(true);
    return;
  }
  v1::ResolvedThreshold* resolved = rule->mutable_threshold();
  resolved->set_score(score);
  resolved->set_value(static_cast<float>(threshold));
}

}  // namespace headcount::plan
