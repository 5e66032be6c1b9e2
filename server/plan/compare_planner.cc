// Kind `compare`: a score job for each side, which run as children; what they are held against each
// other with is read from their stored scores (server/results/compare.h). It has no stage of its
// own. See planners.h.

#include <vector>

#include "server/plan/planners.h"

namespace headcount::plan {
namespace {

class Compare final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kCompare; }

  std::span<const store::Stage> stages() const override { return {}; }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    return absl::InternalError("a compare job has no stages");
  }

  std::vector<ChildJob> Children(const v1::Job& job) const override {
    const v1::CompareSpec& spec = job.compare();
    std::vector<ChildJob> children;
    const auto add = [&children]() -> v1::Workload& {
      return *children.emplace_back().job.mutable_score()->mutable_workload();
    };
    add() = spec.workload();
    for (const std::string& model : spec.models()) {
      v1::Workload& side = add();
      side = spec.workload();
      side.set_model(model);
    }
    for (const v1::TaskSource& task : spec.tasks()) {
      v1::Workload& side = add();
      side = spec.workload();
      *side.mutable_task() = task;
    }
    return children;
  }
};

}  // namespace

const Planner& ComparePlanner() {
  static const Compare planner;
  return planner;
}

}  // namespace headcount::plan
