// The one place that knows how a rule's index in its stage becomes the index that clients see.
//
// A job with a score stage (sweep) takes its baseline, rule -1, from that stage, and its ablate
// stage holds the rules alone: rule i is index i everywhere. Where there is no score stage (an
// ablate job), or it only reads prompts that are then to be continued, the planner puts a rule
// `none` in front: stage index 0 is the baseline, shown as rule -1, and the
// user's rule i is stage index i + 1. Chunks, leases and plans hold stage indices; RuleCounts,
// events, curves and sample records hold shown ones. Pure functions, no errors.

#pragma once

#include "headcount/v1/storage.pb.h"
#include "server/results/job_results.h"

namespace headcount::results {

inline constexpr int kBaselineRule = -1;

// How many rules of an ablate stage stand before the user's first: 1 where it carries its own
// baseline, else 0.
inline int BaselineRules(const v1::StagePlan& ablate) {
  return ablate.rules_size() > 0 && ablate.rules(0).select_case() == v1::ResolvedRule::kNone ? 1
                                                                                             : 0;
}

// The index clients see for a rule of the stage.
inline int ShownRule(const v1::StagePlan& ablate, int stage_rule) {
  return stage_rule - BaselineRules(ablate);
}

// Whether a unit that the plan lists has any of the stage's rules [first, first + count).
inline bool HoldsRules(const v1::UnitRange& unit, int first, int count = 1) {
  return unit.first_rule() < first + count && unit.first_rule() + unit.rules() > first;
}

// The reverse of ShownRule; -1 for a baseline that is not in the ablate stage.
inline int StageRule(const v1::StagePlan& ablate, int shown_rule) {
  return shown_rule + BaselineRules(ablate);
}

// Whether the score stage's own run is the job's baseline. Of a task that generates it is so only
// where nothing else will be run.
inline bool ScoreStageIsBaseline(const JobResults& results, const v1::Manifest& manifest) {
  return results.score.has_value() && (!manifest.has_generation() || results.job.has_score());
}

}  // namespace headcount::results
