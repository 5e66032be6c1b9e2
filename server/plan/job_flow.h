// Moves a job through its life: adds the next stage when the one before is complete, streams curve
// points, ends the job. It decides by what is stored alone, so it can be called at any time, by
// anyone, as often as one likes; it does the next due thing and whatever follows from it.
//
// Called after CreateJob, CancelJob and ResumeJob (Advance), after every stored unit (UnitStored),
// after a lease of a job that is being cancelled ended (Advance), and once at start-up (ResumeAll).
// Planning an ablate stage reads every stored score and can take seconds: FlowRunner calls it from
// a thread of its own.
//
// Thread-safe; calls for one job run one after the other. Errors: what keeps a job from being
// planned fails the job and is OK here; a store that is not available is returned and the call can
// be repeated.

#pragma once

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "headcount/v1/job.pb.h"
#include "headcount/v1/storage.pb.h"
#include "server/plan/curve_events.h"
#include "server/plan/job_catalog.h"
#include "server/plan/planners.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::plan {

// What of a stage that is about to be added other jobs have computed, and on which device.
struct Reused {
  std::vector<store::ReusedUnit> units;
  v1::RunInfo run;  // of the first of them
};
// server/queue implements it. An error means that nothing is reused.
using ReuseFn = std::function<absl::StatusOr<Reused>(
    const v1::Job& job, const store::StageRecord& stage, const v1::Manifest& manifest)>;

struct JobFlowOptions {
  int samples_per_unit = 32;
  int rules_per_unit = 4;
  int prompts_per_unit = 4;    // of a stage that generates
  std::string server_version;  // into each job's provenance
};

class JobFlow {
 public:
  // Nothing is owned; all must outlive the flow.
  JobFlow(store::JobStore& jobs, store::ArtifactStore& artifacts, const JobCatalog& catalog,
          ResultSources results, JobFlowOptions options);

  // Called when a job got a stage or changed its state, outside any lock. Set before use.
  void SetListener(std::function<void(const std::string& job)> listener);

  // Without it every unit is computed. Set before use.
  void SetReuse(ReuseFn reuse);

  // What stages that grow are to run next; jobs that have one need it. Set before use.
  void SetNextUnits(NextUnitsFn next_units);

  // Gives other jobs a turn: children that were created, parents of jobs that ended. Set before
  // use.
  void SetPost(std::function<void(const std::string& job)> post);

  absl::Status Advance(const std::string& job);
  // Advance for the common case: it looks only at the curves that this unit belongs to.
  absl::Status UnitStored(const std::string& job, store::Stage stage, int64_t unit);
  // Advances every job that has not ended. The first error, after having tried all.
  absl::Status ResumeAll();

 private:
  struct StoredUnit {
    store::Stage stage;
    int64_t unit;
  };
  // What a manifest is known by, and the manifest.
  struct LoadedManifest {
    std::string digest;
    v1::Manifest manifest;
  };

  absl::Status Run(const std::string& name, std::optional<StoredUnit> stored);
  // Appends the unit's curve points; whether it may have been the last that something waits for.
  absl::StatusOr<bool> TakeUnit(const std::string& name, const StoredUnit& stored);
  // Does the next due thing; whether it did something, so that more may be due.
  absl::StatusOr<bool> Step(const std::string& name);
  // Brings the curve points up to what is stored, once in the life of this process and again after
  // a call that failed: a crash between storing a unit and its points is made good here. Later
  // units bring their own points.
  absl::Status CatchUp(const v1::Job& job, const std::vector<store::StageRecord>& stages);
  absl::StatusOr<bool> PlanNext(const v1::Job& job, const std::vector<store::StageRecord>& stages);
  absl::StatusOr<bool> AddPrepare(const v1::Job& job, const std::optional<std::string>& key);
  // The manifest that a job planned from the same files has left, if it can still be read.
  std::optional<LoadedManifest> PreparedBefore(const std::optional<std::string>& key);
  absl::StatusOr<LoadedManifest> ManifestOf(const v1::Job& job,
                                            const std::vector<store::StageRecord>& stages);
  absl::StatusOr<LoadedManifest> LoadManifest(const std::string& digest);
  // Lets later jobs find it, unless its files changed while it was made.
  absl::Status KeepManifest(const v1::Job& job, const std::string& digest);
  std::optional<std::string> KeyOf(const v1::Job& job);
  absl::Status SetProvenance(const v1::Job& job, const LoadedManifest& loaded,
                             const ModelFacts& model);
  // What planners are told; refers to its arguments.
  PlanInput InputOf(const v1::Job& job, const LoadedManifest& loaded, const ModelFacts& model,
                    store::Stage stage) const;
  // `loaded`: what it is cut from; null for the prepare stage.
  absl::StatusOr<bool> AddStage(const v1::Job& job, store::Stage stage, v1::StagePlan plan,
                                const LoadedManifest* loaded);
  // The units that need not be computed.
  absl::StatusOr<std::vector<store::ReusedUnit>> FindReused(const v1::Job& job,
                                                            const store::StageRecord& stage,
                                                            const v1::Manifest& manifest);
  // Of a job that is made of others: creates them, and ends it when they have ended.
  absl::StatusOr<bool> StepChildren(const v1::Job& job, const std::vector<ChildJob>& children);
  // Adds the units that its last stage needs next, or ends the job.
  absl::StatusOr<bool> Grow(const v1::Job& job, const Planner& planner,
                            const std::vector<store::StageRecord>& stages);
  absl::StatusOr<bool> Succeed(const v1::Job& job, const std::vector<store::StageRecord>& stages);
  // Fails the job with `error`, unless repeating may help: then that is returned.
  absl::StatusOr<bool> Fail(const v1::Job& job, const absl::Status& error);
  // Into another state; false where somebody changed it first, and calls again.
  absl::StatusOr<bool> Move(const store::StateChange& change);
  void Forget(const std::string& job);

  store::JobStore& jobs_;
  store::ArtifactStore& artifacts_;
  const JobCatalog& catalog_;
  const ResultSources results_;
  const JobFlowOptions options_;
  NextUnitsFn next_units_;
  std::function<void(const std::string&)> post_;
  CurveEvents curves_;
  std::function<void(const std::string&)> listener_;
  ReuseFn reuse_;

  std::array<std::mutex, 64> locks_;  // by hash of the job's name
  std::mutex mutex_;                  // guards what follows
  std::set<std::string> caught_up_;
  // The key a job's prepare stage was planned under.
  std::map<std::string, std::string> prepare_keys_;
};

}  // namespace headcount::plan
