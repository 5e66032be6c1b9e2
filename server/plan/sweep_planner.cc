// Kind `sweep`, the paper's experiment: a score stage, then one ablate rule for each score and
// fraction, in that order, with thresholds from the job's own scores or those of the job that
// calibrate_on names; or, over several models and tasks, such a sweep for each. See planners.h.
// Fraction 0 is the score stage's own run and gets no rule, unless the task generates: its score
// stage measures the prompts alone. Controls come after these rules.

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/controls.h"
#include "server/plan/cutter.h"
#include "server/plan/planners.h"
#include "server/plan/rules.h"
#include "server/plan/sweep_controls.h"
#include "server/results/sweep_children.h"

namespace headcount::plan {
namespace {

constexpr std::array kDefaultFractions = {.05, .10, .15, .20, .25, .30};

std::vector<double> Fractions(const v1::SweepSpec& spec) {
  if (spec.fractions().empty()) return {kDefaultFractions.begin(), kDefaultFractions.end()};
  std::vector<double> fractions;
  for (double fraction : spec.fractions()) {
    if (fraction > 0) fractions.push_back(fraction);
  }
  return fractions;
}

}  // namespace

absl::StatusOr<std::vector<v1::ResolvedRule>> SweepRules(const PlanInput& input,
                                                         const v1::SweepSpec& spec) {
  const std::vector<double> fractions = Fractions(spec);
  const results::ScorePool pool =
      PoolOf(spec.layers(), spec.unit(), spec.group_score(), input.model);
  std::vector<const catalog::Score*> scores;
  std::vector<const catalog::Score*> measured;
  HC_ASSIGN_OR_RETURN(const UserScores known,
                      UserScores::Make(spec.user_scores(), "sweep.user_scores"));
  for (const std::string& name : spec.scores()) {
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, known.Find(name, "sweep.scores"));
    scores.push_back(score);
    if (!score->is_random()) measured.push_back(score);
  }
  std::vector<std::vector<double>> thresholds;
  if (!measured.empty()) {
    const std::string& calibration =
        spec.calibrate_on().empty() ? input.job.name() : spec.calibrate_on();
    absl::StatusOr<std::vector<std::vector<double>>> found =
        input.results.thresholds(calibration, measured, fractions, pool);
    if (!found.ok()) return Annotate(found.status(), calibration);
    thresholds = *std::move(found);
  }
  std::vector<v1::ResolvedRule> rules;
  rules.reserve(1 + scores.size() * fractions.size());
  // The score stage only reads such prompts; what is generated without any rule is run beside them.
  if (input.manifest.has_generation()) rules.push_back(BaselineRule());
  size_t row = 0;
  for (const catalog::Score* score : scores) {
    for (size_t f = 0; f < fractions.size(); ++f) {
      rules.push_back(NewRule(score->id, fractions[f], pool.layers));
      if (score->is_random()) {
        rules.back().mutable_random()->set_p(fractions[f]);
        rules.back().mutable_random()->set_seed(spec.random_seed());
      } else {
        SelectFraction(known, *score, fractions[f], thresholds[row][f], &rules.back());
      }
      SetUnit(spec.unit(), score->is_random() ? v1::GROUP_SCORE_UNSPECIFIED : spec.group_score(),
              &rules.back());
      SetIntervention(spec.intervention(), &rules.back());
      if (spec.intervention().has_mean()) {  // a rule says by itself what it does
        rules.back().mutable_intervention()->set_mean(input.job.name());
      }
      if (input.manifest.has_generation()) rules.back().set_mask_update(spec.mask_update());
    }
    if (!score->is_random()) ++row;
  }
  return rules;
}

namespace {

class Sweep final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kSweep; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kScore, store::Stage::kAblate};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    std::vector<v1::ResolvedRule> rules;
    if (stage == store::Stage::kAblate) {
      HC_ASSIGN_OR_RETURN(rules, SweepRules(input, input.job.sweep()));
      HC_RETURN_IF_ERROR(AddSweepControls(input.job.sweep(), input, &rules));
    }
    HC_ASSIGN_OR_RETURN(v1::StagePlan plan, CutStage(input.manifest, input.samples_per_unit,
                                                     std::move(rules), input.rules_per_unit));
    if (stage == store::Stage::kAblate && grows(input.job)) {
      ListUnits(0, FirstOpenRule(plan.rules()), &plan);
    }
    if (stage == store::Stage::kAblate && input.job.sweep().intervention().has_mean()) {
      HC_ASSIGN_OR_RETURN(*plan.add_means(), MeansFor(input.job.name(), input));
    }
    return plan;
  }

  std::vector<ChildJob> Children(const v1::Job& job) const override {
    std::vector<ChildJob> children;
    for (results::SweepChild& child : results::SweepChildren(job)) {
      children.push_back({std::move(child.job), std::move(child.after)});
    }
    return children;
  }

  // By the controls that need the masks of the sweep's own rules.
  bool grows(const v1::Job& job) const override {
    const auto& controls = job.sweep().controls();
    return std::any_of(controls.begin(), controls.end(),
                       [](int control) { return control != v1::CONTROL_RANDOM_IN_LAYER; });
  }

  absl::Status Grow(const PlanInput& input, v1::StagePlan* plan) const override {
    const int open = FirstOpenRule(plan->rules());
    HC_RETURN_IF_ERROR(SelectOpenRules(input, plan));
    ListUnits(open, plan->rules_size(), plan);
    return absl::OkStatus();
  }
};

}  // namespace

const Planner& SweepPlanner() {
  static const Sweep planner;
  return planner;
}

}  // namespace headcount::plan
