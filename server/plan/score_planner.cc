// Kind `score`: every sample once, all measurements kept. See planners.h.

#include <array>

#include "server/plan/cutter.h"
#include "server/plan/planners.h"

namespace headcount::plan {
namespace {

class Score final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kScore; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kScore};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    return CutStage(input.manifest, input.samples_per_unit, {}, 0);
  }
};

}  // namespace

const Planner& ScorePlanner() {
  static const Score planner;
  return planner;
}

}  // namespace headcount::plan
