// See sweep_controls.h.

#include "server/plan/sweep_controls.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/controls.h"
#include "server/results/rule_index.h"

namespace headcount::plan {
namespace {

// The rules that have controls, by index: those that a score decides.
std::vector<int> Parents(const google::protobuf::RepeatedPtrField<v1::ResolvedRule>& rules) {
  std::vector<int> parents;
  for (int i = 0; i < rules.size(); ++i) {
    if (rules.Get(i).has_threshold()) parents.push_back(i);
  }
  return parents;
}

// `parent` with its heads chosen otherwise, which is left to do.
v1::ResolvedRule ControlOf(const v1::ResolvedRule& parent, const char* name) {
  v1::ResolvedRule rule = parent;
  rule.clear_threshold();
  rule.clear_unit();
  rule.clear_group_score();
  rule.set_label(absl::StrCat(name, "(", parent.label(), ")"));
  return rule;
}

v1::ResolvedRule RandomInLayer(const v1::ResolvedRule& parent, uint64_t seed) {
  v1::ResolvedRule rule = ControlOf(parent, "random_in_layer");
  v1::ResolvedRule& part = *rule.mutable_combined()->add_parts();
  part = parent;
  part.clear_intervention();  // what its heads become is the control's to say
  rule.mutable_combined()->add_steps()->set_op(v1::CombineStep::PART);
  v1::CombineStep& draw = *rule.mutable_combined()->add_steps();
  draw.set_op(v1::CombineStep::RANDOM_IN_LAYER);
  draw.set_seed(seed);
  draw.set_unit(parent.unit());
  return rule;
}

bool NeedsMasks(int control) { return control != v1::CONTROL_RANDOM_IN_LAYER; }

absl::Status CheckMaskBytes(const PlanInput& input, int rules) {
  const int64_t mask = (int64_t{input.model.layers} * input.model.heads + 7) / 8;
  const int64_t bytes = mask * input.manifest.samples_size() * rules;
  if (bytes <= kMaxMaskBytes) return absl::OkStatus();
  return WithField(
      WithReason(absl::FailedPreconditionError(absl::StrCat(
                     "sweep.controls: the masks of ", rules, " shuffled rules over ",
                     input.manifest.samples_size(), " samples have ", bytes, " bytes, at most ",
                     kMaxMaskBytes, " are planned; ask for fewer scores or fractions in a job")),
                 "MASKS_TOO_LARGE"),
      "sweep.controls");
}

}  // namespace

absl::Status AddSweepControls(const v1::SweepSpec& spec, const PlanInput& input,
                              std::vector<v1::ResolvedRule>* rules) {
  std::vector<v1::ResolvedRule> parents;
  for (const v1::ResolvedRule& rule : *rules) {
    if (rule.has_threshold()) parents.push_back(rule);
  }
  for (const int control : spec.controls()) {
    if (NeedsMasks(control)) continue;
    for (const v1::ResolvedRule& parent : parents) {
      rules->push_back(RandomInLayer(parent, spec.control_seed()));
    }
  }
  for (const int control : spec.controls()) {
    if (!NeedsMasks(control)) continue;
    const bool shuffled = control == v1::CONTROL_SHUFFLED;
    if (shuffled) HC_RETURN_IF_ERROR(CheckMaskBytes(input, static_cast<int>(parents.size())));
    for (const v1::ResolvedRule& parent : parents) {
      rules->push_back(ControlOf(parent, shuffled ? "shuffled" : "static_heads"));
      rules->back().clear_layers();  // the masks are taken as they were
    }
  }
  return absl::OkStatus();
}

int FirstOpenRule(const google::protobuf::RepeatedPtrField<v1::ResolvedRule>& rules) {
  int rule = 0;
  while (rule < rules.size() && rules.Get(rule).select_case() != v1::ResolvedRule::SELECT_NOT_SET) {
    ++rule;
  }
  return rule;
}

absl::Status SelectOpenRules(const PlanInput& input, v1::StagePlan* plan) {
  const v1::SweepSpec& spec = input.job.sweep();
  const std::vector<int> parents = Parents(plan->rules());
  int open = FirstOpenRule(plan->rules());
  if (open == plan->rules_size()) return absl::OkStatus();
  for (const int control : spec.controls()) {
    if (!NeedsMasks(control)) continue;
    for (const int parent : parents) {
      HC_ASSIGN_OR_RETURN(const results::RuleMasks masks,
                          input.results.masks(input.job.name(), results::ShownRule(*plan, parent)));
      v1::ResolvedRule& rule = *plan->mutable_rules(open++);
      if (control == v1::CONTROL_SHUFFLED) {
        HC_ASSIGN_OR_RETURN(*rule.mutable_sample_masks(),
                            ShuffledMasksOf(masks, spec.control_seed(), input.manifest,
                                            input.manifest_digest, input.model));
        continue;
      }
      HC_RETURN_IF_ERROR(SelectStaticHeads(masks, input.model, &rule));
    }
  }
  return absl::OkStatus();
}

}  // namespace headcount::plan
