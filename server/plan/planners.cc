// The list of job kinds. See planners.h.

#include "server/plan/planners.h"

#include <string>

#include "common/base/errors.h"

namespace headcount::plan {
namespace {

std::span<const Planner* const> Planners() {
  static const Planner* const planners[] = {
      &ScorePlanner(),    &AblatePlanner(),  &SweepPlanner(), &FrontierPlanner(),
      &KnockoutPlanner(), &ComparePlanner(), &ProbePlanner()};
  return planners;
}

}  // namespace

absl::StatusOr<const Planner*> FindPlanner(const v1::Job& job) {
  for (const Planner* planner : Planners()) {
    if (planner->kind() == job.spec_case()) return planner;
  }
  const auto* field = v1::Job::descriptor()->FindFieldByNumber(static_cast<int>(job.spec_case()));
  if (field == nullptr) return InvalidField("spec", "", "the job has none");
  return UnimplementedField(field->name());
}

}  // namespace headcount::plan
