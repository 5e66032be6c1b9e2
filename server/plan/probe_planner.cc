// Kind `probe`: a few prompts under a few rules, with everything about them kept. See planners.h. A
// unit is a document under the baseline and all rules: what the rules change is told against the
// baseline of the same unit, and the first prompt's answer is there before the second is run.

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/cutter.h"
#include "server/plan/planners.h"
#include "server/plan/rule_list.h"

namespace headcount::plan {
namespace {

constexpr int kDefaultNextTokens = 10;

class Probe final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kProbe; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kAblate};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    const v1::ProbeSpec& spec = input.job.probe();
    if (input.manifest.samples_size() > kMaxProbePrompts) {
      return WithField(absl::FailedPreconditionError(absl::StrCat(
                           "probe.workload: has ", input.manifest.samples_size(),
                           " samples, at most ", kMaxProbePrompts, " are probed: set a limit")),
                       "probe.workload");
    }
    HC_ASSIGN_OR_RETURN(ResolvedList list,
                        ResolveRules({spec.rules(), spec.user_scores(), "probe"}, input));
    const int rules = static_cast<int>(list.rules.size());
    HC_ASSIGN_OR_RETURN(
        v1::StagePlan plan,
        CutStage(input.manifest, LargestDocument(input.manifest), std::move(list.rules), rules));
    plan.mutable_means()->Assign(list.means.begin(), list.means.end());
    v1::RowRecord& record = *plan.mutable_record();
    record.set_measurements(true);
    record.set_first_weights(true);
    record.set_next_tokens(spec.next_tokens() == 0 ? kDefaultNextTokens : spec.next_tokens());
    return plan;
  }
};

}  // namespace

const Planner& ProbePlanner() {
  static const Probe planner;
  return planner;
}

}  // namespace headcount::plan
