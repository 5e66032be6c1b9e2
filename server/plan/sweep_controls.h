// The controls of a sweep: beside each rule that a score decides, rules that change as many heads
// chosen otherwise, so that a curve shows what the score's choice is worth.
//
// `random_in_layer` is decided in the pass and runs with the sweep's own rules. `shuffled` and
// `static_heads` take masks that must be there first: their rules stand in the plan from the
// beginning, without a selection, and the stage grows by them once the sweep's own are stored
// (docs/decisions/0006-controls.md). Called by sweep_planner.cc. Errors: FAILED_PRECONDITION naming
// what does not fit, with both numbers.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "headcount/v1/spec.pb.h"
#include "headcount/v1/storage.pb.h"
#include "server/plan/planners.h"

namespace headcount::plan {

// Appends the controls of `spec` to the sweep's rules: one for each control and rule that a score
// decides, those without a selection last. Refuses masks that will not fit into the plan, before
// anything has been computed for them.
absl::Status AddSweepControls(const v1::SweepSpec& spec, const PlanInput& input,
                              std::vector<v1::ResolvedRule>* rules);

// The first rule without a selection; rules.size() where all have one.
int FirstOpenRule(const google::protobuf::RepeatedPtrField<v1::ResolvedRule>& rules);

// Selects the open rules of the plan from the masks that its other rules have left in the job's
// results. Nothing to do where there are none.
absl::Status SelectOpenRules(const PlanInput& input, v1::StagePlan* plan);

}  // namespace headcount::plan
