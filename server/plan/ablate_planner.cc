// Kind `ablate`: every sample under every rule of a list, and without any. See planners.h.

#include <array>
#include <utility>

#include "common/base/status_macros.h"
#include "server/plan/cutter.h"
#include "server/plan/planners.h"
#include "server/plan/rule_list.h"

namespace headcount::plan {
namespace {

class Ablate final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kAblate; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kAblate};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    const v1::AblateSpec& spec = input.job.ablate();
    HC_ASSIGN_OR_RETURN(ResolvedList list,
                        ResolveRules({spec.rules(), spec.user_scores(), "ablate"}, input));
    HC_ASSIGN_OR_RETURN(v1::StagePlan plan, CutStage(input.manifest, input.samples_per_unit,
                                                     std::move(list.rules), input.rules_per_unit));
    plan.mutable_means()->Assign(list.means.begin(), list.means.end());
    return plan;
  }
};

}  // namespace

const Planner& AblatePlanner() {
  static const Ablate planner;
  return planner;
}

}  // namespace headcount::plan
