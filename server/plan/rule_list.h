// A job's list of rules, as a client wrote it, made ready to run: fractions become thresholds, from
// the score jobs that the rules name, masks and means of other jobs are fetched, and a rule `none`
// is put in front as the job's own baseline (server/results/rule_index.h says how indices are
// shown). Called by the planners of the kinds that take such a list. A pure function but for the
// results that it reads. Errors: FAILED_PRECONDITION and INVALID_ARGUMENT naming the field.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/plan/planners.h"

namespace headcount::plan {

struct RuleList {
  const google::protobuf::RepeatedPtrField<v1::Rule>& rules;
  const google::protobuf::RepeatedPtrField<v1::UserScore>& user_scores;
  std::string field;  // of the job that holds both, as errors name it: "ablate"
};

struct ResolvedList {
  std::vector<v1::ResolvedRule> rules;  // the baseline first
  std::vector<v1::HeadMeans> means;     // what interventions refer to; the plan's
};

absl::StatusOr<ResolvedList> ResolveRules(const RuleList& list, const PlanInput& input);

}  // namespace headcount::plan
