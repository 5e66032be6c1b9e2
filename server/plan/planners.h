// The job kinds: for each, which stages it has and how a stage is planned once the stages before it
// are complete. A new kind is one file that defines a planner and one line in planners.cc.
//
// Every kind starts with the prepare stage; planners name only what comes after it. A planner holds
// no state: everything it needs is in its input, so planning the same stage twice gives the same
// plan. Thread-safe. Errors of Plan fail the job and are shown to its owner, so they name the field
// of the spec, the value and the limit.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "common/catalog/scores.h"
#include "headcount/v1/job.pb.h"
#include "headcount/v1/storage.pb.h"
#include "server/results/rule_masks.h"
#include "server/results/score_pool.h"
#include "server/store/job_store.h"

namespace headcount::plan {

// The thresholds of `fractions` for many scores of a job's stored score stage: [score][fraction].
// server/results implements it.
using ThresholdsFn = std::function<absl::StatusOr<std::vector<std::vector<double>>>(
    const std::string& job, std::span<const catalog::Score* const> scores,
    std::span<const double> fractions, const results::ScorePool& pool)>;

// What a rule of a finished job did to each sample, and mean head outputs of a score job.
using MasksFn = std::function<absl::StatusOr<results::RuleMasks>(const std::string& job, int rule)>;
using MeansFn = std::function<absl::StatusOr<v1::HeadMeans>(const std::string& job)>;

// What planners ask of stored results.
struct ResultSources {
  ThresholdsFn thresholds;
  MasksFn masks;
  MeansFn means;
};

// What to run next in a stage that grows as its results come in, given what is stored of it; empty:
// nothing more. server/results implements it.
using NextUnitsFn = std::function<absl::StatusOr<std::vector<v1::UnitRange>>(
    const v1::Job& job, const v1::StagePlan& plan)>;

struct PlanInput {
  const v1::Job& job;
  const v1::Manifest& manifest;
  std::string manifest_digest;
  const catalog::ModelConfig& model;
  int samples_per_unit = 32;
  int rules_per_unit = 4;
  const ResultSources& results;
  const NextUnitsFn& next_units;
};

// One of the jobs that a job is made of.
struct ChildJob {
  v1::Job job;             // of which only the spec is set
  std::vector<int> after;  // children before it in the list that must have succeeded first
};

class Planner {
 public:
  virtual ~Planner() = default;

  virtual v1::Job::SpecCase kind() const = 0;
  // The stages after prepare, in order.
  virtual std::span<const store::Stage> stages() const = 0;
  // The plan of one of them.
  virtual absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const = 0;
  // The jobs that this one is made of; it has no stages then and ends when they do. Empty for most.
  virtual std::vector<ChildJob> Children(const v1::Job& job) const { return {}; }
  // Whether the last stage of such a job may grow: Grow is asked each time that all of it is
  // stored.
  virtual bool grows(const v1::Job& job) const { return false; }
  // Adds units to the plan of the last stage, and selects what rules of theirs left open; the
  // planned units are listed and stay as they are. Adds nothing: the job is done.
  virtual absl::Status Grow(const PlanInput& input, v1::StagePlan* plan) const {
    return absl::OkStatus();
  }
};

// The planner of a job's kind. UNIMPLEMENTED naming the kind when it is not served,
// INVALID_ARGUMENT when the job has no spec.
absl::StatusOr<const Planner*> FindPlanner(const v1::Job& job);

// The rules of a sweep: one for each score and fraction, in that order, with thresholds from the
// job's own stored scores. Kinds that take their shares as a sweep does have them made here.
absl::StatusOr<std::vector<v1::ResolvedRule>> SweepRules(const PlanInput& input,
                                                         const v1::SweepSpec& spec);

// The planners of the list in planners.cc, one a file.
const Planner& ScorePlanner();
const Planner& AblatePlanner();
const Planner& SweepPlanner();
const Planner& FrontierPlanner();
const Planner& KnockoutPlanner();
const Planner& ComparePlanner();
const Planner& ProbePlanner();

// Prompts of a probe: requests of a job, and samples of a manifest.
inline constexpr int kMaxProbePrompts = 64;

}  // namespace headcount::plan
