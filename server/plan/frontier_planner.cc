// Kind `frontier`: a score stage, which gives thresholds and the baseline, then an ablate stage
// that grows: at each look the search (server/results/frontier.h) says which blocks of documents to
// run under which rule next, until every score has its answer. See planners.h.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "server/plan/cutter.h"
#include "server/plan/planners.h"
#include "server/results/frontier.h"

namespace headcount::plan {
namespace {

// So many blocks are worth smaller units: a look sees more of them, and stops earlier.
constexpr int kBlocks = 256;

// The rules are those of a sweep over the same shares.
v1::SweepSpec AsSweep(const v1::FrontierSpec& spec) {
  v1::SweepSpec sweep;
  *sweep.mutable_scores() = spec.scores();
  *sweep.mutable_fractions() = spec.fractions();
  *sweep.mutable_layers() = spec.layers();
  sweep.set_random_seed(spec.random_seed());
  return sweep;
}

int SamplesPerBlock(const v1::Manifest& manifest, int samples_per_unit) {
  return std::min(samples_per_unit,
                  std::max(LargestDocument(manifest), manifest.samples_size() / kBlocks));
}

class Frontier final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kFrontier; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kScore, store::Stage::kAblate};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    if (stage == store::Stage::kScore) {
      return CutStage(input.manifest, input.samples_per_unit, {}, 0);
    }
    const v1::FrontierSpec& spec = input.job.frontier();
    HC_ASSIGN_OR_RETURN(std::vector<v1::ResolvedRule> rules, SweepRules(input, AsSweep(spec)));
    HC_ASSIGN_OR_RETURN(
        v1::StagePlan plan,
        CutStage(input.manifest, SamplesPerBlock(input.manifest, input.samples_per_unit),
                 std::move(rules), /*rules_per_unit=*/1));
    for (const int32_t block : results::DrawOrder(plan.sample_blocks_size(), spec.seed())) {
      plan.add_block_order(block);
    }
    HC_ASSIGN_OR_RETURN(const std::vector<v1::UnitRange> first, input.next_units(input.job, plan));
    plan.mutable_units()->Assign(first.begin(), first.end());
    return plan;
  }

  bool grows(const v1::Job& job) const override { return true; }

  absl::Status Grow(const PlanInput& input, v1::StagePlan* plan) const override {
    HC_ASSIGN_OR_RETURN(const std::vector<v1::UnitRange> more, input.next_units(input.job, *plan));
    plan->mutable_units()->Add(more.begin(), more.end());
    return absl::OkStatus();
  }
};

}  // namespace

const Planner& FrontierPlanner() {
  static const Frontier planner;
  return planner;
}

}  // namespace headcount::plan
