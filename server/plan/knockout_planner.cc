// Kind `knockout`: every query head of the chosen layers zeroed alone, with the baseline in front.
// See planners.h. Heads of one layer are consecutive rules: they share everything below it, so a
// unit holds many rules on fewer samples and the engine computes what they share once.

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "server/plan/cutter.h"
#include "server/plan/planners.h"
#include "server/plan/rules.h"

namespace headcount::plan {
namespace {

constexpr double kNoFraction = std::numeric_limits<double>::quiet_NaN();
constexpr int kMostRulesPerUnit = 16;

std::vector<v1::ResolvedRule> Rules(const PlanInput& input) {
  const std::vector<uint8_t> flags = LayerFlags(input.job.knockout().layers(), input.model.layers);
  std::vector<v1::ResolvedRule> rules = {NewRule("baseline", 0, {})};
  rules.back().set_none(true);
  for (int layer = 0; layer < input.model.layers; ++layer) {
    if (!flags.empty() && flags[static_cast<size_t>(layer)] == 0) continue;
    for (int head = 0; head < input.model.heads; ++head) {
      rules.push_back(NewRule("knockout", kNoFraction, {}));
      v1::Head& out = *rules.back().mutable_fixed_heads()->add_heads();
      out.set_layer(layer);
      out.set_head(head);
    }
  }
  return rules;
}

class Knockout final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kKnockout; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kAblate};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    std::vector<v1::ResolvedRule> rules = Rules(input);
    // As many rows a unit as elsewhere, in another shape.
    const int rows = input.samples_per_unit * input.rules_per_unit;
    const int rules_per_unit =
        std::max(input.rules_per_unit, std::min(kMostRulesPerUnit, static_cast<int>(rules.size())));
    const int samples = std::clamp(rows / rules_per_unit, 1, input.samples_per_unit);
    return CutStage(input.manifest, std::max(samples, LargestDocument(input.manifest)),
                    std::move(rules), rules_per_unit);
  }
};

}  // namespace

const Planner& KnockoutPlanner() {
  static const Knockout planner;
  return planner;
}

}  // namespace headcount::plan
