// See job_flow.h.

#include "server/plan/job_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/numerics_version.h"
#include "common/format/frame.h"
#include "common/format/job_kind.h"
#include "common/format/rpc_status.h"
#include "server/plan/child_jobs.h"
#include "server/plan/cutter.h"
#include "server/plan/prepare_key.h"
#include "spdlog/spdlog.h"

namespace headcount::plan {
namespace {

using store::Stage;
using store::StageRecord;

// Repeating the call may help; the job is not at fault.
bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

const StageRecord* Find(const std::vector<StageRecord>& stages, Stage stage) {
  for (const StageRecord& record : stages) {
    if (record.stage == stage) return &record;
  }
  return nullptr;
}

bool AllComplete(const std::vector<StageRecord>& stages) {
  return std::all_of(stages.begin(), stages.end(),
                     [](const StageRecord& stage) { return stage.done_units >= stage.units; });
}

}  // namespace

JobFlow::JobFlow(store::JobStore& jobs, store::ArtifactStore& artifacts, const JobCatalog& catalog,
                 ResultSources results, JobFlowOptions options)
    : jobs_(jobs),
      artifacts_(artifacts),
      catalog_(catalog),
      results_(std::move(results)),
      options_(std::move(options)),
      curves_(jobs) {}

void JobFlow::SetListener(std::function<void(const std::string& job)> listener) {
  listener_ = std::move(listener);
}

void JobFlow::SetReuse(ReuseFn reuse) { reuse_ = std::move(reuse); }

void JobFlow::SetPost(std::function<void(const std::string& job)> post) { post_ = std::move(post); }

void JobFlow::SetNextUnits(NextUnitsFn next_units) { next_units_ = std::move(next_units); }

absl::Status JobFlow::Advance(const std::string& job) { return Run(job, std::nullopt); }

absl::Status JobFlow::UnitStored(const std::string& job, Stage stage, int64_t unit) {
  return Run(job, StoredUnit{stage, unit});
}

absl::Status JobFlow::ResumeAll() {
  HC_ASSIGN_OR_RETURN(const std::vector<std::string> open, jobs_.OpenJobs());
  absl::Status first;
  for (const std::string& job : open) first.Update(Advance(job));
  return first;
}

absl::Status JobFlow::Run(const std::string& name, std::optional<StoredUnit> stored) {
  bool changed = false;
  absl::Status status;
  {
    std::lock_guard lock(locks_[std::hash<std::string>()(name) % locks_.size()]);
    bool more = true;
    if (stored.has_value()) {
      const absl::StatusOr<bool> due = TakeUnit(name, *stored);
      status = due.status();
      more = due.value_or(false);
    }
    while (more) {
      const absl::StatusOr<bool> did = Step(name);
      status = did.status();
      more = did.value_or(false);
      changed = changed || more;
    }
    if (!status.ok()) {
      std::lock_guard guard(mutex_);
      caught_up_.erase(name);
    }
  }
  if (changed && listener_) listener_(name);
  return status;
}

absl::StatusOr<bool> JobFlow::TakeUnit(const std::string& name, const StoredUnit& stored) {
  if (stored.stage == Stage::kPrepare) return true;
  const absl::StatusOr<v1::Job> job = jobs_.GetJob(name);
  const absl::StatusOr<StageRecord> stage = jobs_.GetStage(name, stored.stage);
  if (absl::IsNotFound(job.status()) || absl::IsNotFound(stage.status())) return false;  // deleted
  HC_RETURN_IF_ERROR(job.status());
  HC_RETURN_IF_ERROR(stage.status());
  HC_RETURN_IF_ERROR(curves_.Append(*job, *stage, stored.unit));
  return stage->done_units >= stage->units || job->state() == v1::Job::CANCELLING;
}

absl::StatusOr<bool> JobFlow::Step(const std::string& name) {
  const absl::StatusOr<v1::Job> found = jobs_.GetJob(name);
  if (absl::IsNotFound(found.status())) {
    Forget(name);
    return false;
  }
  HC_RETURN_IF_ERROR(found.status());
  const v1::Job& job = *found;
  switch (job.state()) {
    case v1::Job::QUEUED:
    case v1::Job::STARTING:
    case v1::Job::RUNNING:
      break;
    case v1::Job::CANCELLING: {
      HC_ASSIGN_OR_RETURN(const std::vector<store::Lease> leases, jobs_.ListLeases(name));
      if (!leases.empty()) return false;
      if (const absl::StatusOr<const Planner*> planner = FindPlanner(job); planner.ok()) {
        HC_RETURN_IF_ERROR(ChildJobs(jobs_, post_).Cancel(job, (*planner)->Children(job).size()));
      }
      return Move({.job = name,
                   .from = {v1::Job::CANCELLING},
                   .to = v1::Job::CANCELLED,
                   .reason = "CANCELLED"});
    }
    case v1::Job::PAUSED:
      return false;
    default:
      Forget(name);
      if (!job.parent().empty() && post_) post_(job.parent());
      return false;
  }
  HC_ASSIGN_OR_RETURN(const std::vector<StageRecord> stages, jobs_.ListStages(name));
  HC_RETURN_IF_ERROR(CatchUp(job, stages));
  if (!AllComplete(stages)) return false;
  return PlanNext(job, stages);
}

absl::Status JobFlow::CatchUp(const v1::Job& job, const std::vector<StageRecord>& stages) {
  {
    std::lock_guard lock(mutex_);
    if (caught_up_.contains(job.name())) return absl::OkStatus();
  }
  for (const StageRecord& stage : stages) {
    HC_RETURN_IF_ERROR(curves_.Append(job, stage, std::nullopt));
  }
  std::lock_guard lock(mutex_);
  caught_up_.insert(job.name());
  return absl::OkStatus();
}

absl::StatusOr<bool> JobFlow::PlanNext(const v1::Job& job, const std::vector<StageRecord>& stages) {
  const absl::StatusOr<const Planner*> planner = FindPlanner(job);
  if (!planner.ok()) return Fail(job, planner.status());

  if (const std::vector<ChildJob> children = (*planner)->Children(job); !children.empty()) {
    return StepChildren(job, children);
  }
  absl::StatusOr<LoadedManifest> loaded;
  if (stages.empty()) {
    const std::optional<std::string> key = KeyOf(job);
    std::optional<LoadedManifest> before = PreparedBefore(key);
    if (!before.has_value()) return AddPrepare(job, key);
    loaded = *std::move(before);
  }
  const auto planned = (*planner)->stages();
  const auto next = std::find_if(planned.begin(), planned.end(),
                                 [&stages](Stage stage) { return Find(stages, stage) == nullptr; });
  if (next == planned.end()) return Grow(job, **planner, stages);

  if (!stages.empty()) loaded = ManifestOf(job, stages);
  if (!loaded.ok()) return Fail(job, Annotate(loaded.status(), "manifest"));
  const absl::StatusOr<ModelFacts> model = catalog_.FindModel(format::WorkloadOf(job).model());
  if (!model.ok()) return Fail(job, model.status());
  if (next == planned.begin()) HC_RETURN_IF_ERROR(SetProvenance(job, *loaded, *model));

  absl::StatusOr<v1::StagePlan> plan =
      (*planner)->Plan(*next, InputOf(job, *loaded, *model, *next));
  if (!plan.ok()) {
    return Fail(
        job, Annotate(plan.status(), absl::StrCat("planning the ",
                                                  std::string(store::StageName(*next)), " stage")));
  }
  return AddStage(job, *next, *std::move(plan), &*loaded);
}

PlanInput JobFlow::InputOf(const v1::Job& job, const LoadedManifest& loaded,
                           const ModelFacts& model, Stage stage) const {
  const bool generates = loaded.manifest.has_generation() && stage == Stage::kAblate;
  return {.job = job,
          .manifest = loaded.manifest,
          .manifest_digest = loaded.digest,
          .model = model.config,
          .samples_per_unit = generates ? options_.prompts_per_unit : options_.samples_per_unit,
          .rules_per_unit = options_.rules_per_unit,
          .results = results_,
          .next_units = next_units_};
}

std::optional<std::string> JobFlow::KeyOf(const v1::Job& job) {
  // A model or task that cannot be read any more is the prepare stage's to report, with the file.
  absl::StatusOr<std::string> key = PrepareKey(format::WorkloadOf(job), catalog_);
  if (!key.ok()) return std::nullopt;
  return *std::move(key);
}

absl::StatusOr<bool> JobFlow::AddPrepare(const v1::Job& job,
                                         const std::optional<std::string>& key) {
  if (key.has_value()) {
    std::lock_guard lock(mutex_);
    prepare_keys_[job.name()] = *key;
  }
  return AddStage(job, Stage::kPrepare, PreparePlan(), nullptr);
}

std::optional<JobFlow::LoadedManifest> JobFlow::PreparedBefore(
    const std::optional<std::string>& key) {
  if (!key.has_value()) return std::nullopt;
  const auto digest = jobs_.FindManifestKey(*key);
  if (!digest.ok() || !digest->has_value()) return std::nullopt;
  // Its jobs may be deleted and the file collected, or the disk may have lost it: prepare again.
  absl::StatusOr<LoadedManifest> loaded = LoadManifest(**digest);
  if (!loaded.ok()) return std::nullopt;
  return *std::move(loaded);
}

absl::StatusOr<JobFlow::LoadedManifest> JobFlow::ManifestOf(
    const v1::Job& job, const std::vector<StageRecord>& stages) {
  for (const StageRecord& stage : stages) {
    if (!stage.manifest_digest.empty()) return LoadManifest(stage.manifest_digest);
  }
  HC_ASSIGN_OR_RETURN(const std::vector<store::ChunkRecord> chunks,
                      jobs_.ListChunks(job.name(), Stage::kPrepare, 0, 1));
  if (chunks.empty()) return absl::InternalError("the prepare stage is complete without a chunk");
  HC_RETURN_IF_ERROR(KeepManifest(job, chunks.front().digest));
  return LoadManifest(chunks.front().digest);
}

absl::StatusOr<JobFlow::LoadedManifest> JobFlow::LoadManifest(const std::string& digest) {
  const absl::StatusOr<std::string> bytes = artifacts_.Get(digest);
  if (absl::IsNotFound(bytes.status())) {
    return absl::DataLossError(absl::StrCat("chunk ", digest, " is missing"));
  }
  HC_RETURN_IF_ERROR(bytes.status());
  LoadedManifest loaded;
  loaded.digest = digest;
  HC_RETURN_IF_ERROR(format::Unframe(format::FrameKind::kManifest, *bytes, &loaded.manifest));
  return loaded;
}

absl::Status JobFlow::KeepManifest(const v1::Job& job, const std::string& digest) {
  std::string planned;
  {
    std::lock_guard lock(mutex_);
    const auto entry = prepare_keys_.find(job.name());
    if (entry == prepare_keys_.end()) return absl::OkStatus();
    planned = entry->second;
  }
  if (KeyOf(job) != planned) return absl::OkStatus();
  return jobs_.PutManifestKey(planned, digest);
}

absl::Status JobFlow::SetProvenance(const v1::Job& job, const LoadedManifest& loaded,
                                    const ModelFacts& model) {
  v1::Provenance provenance;
  provenance.set_model_digest(model.digest);
  provenance.set_tokenizer_digest(loaded.manifest.tokenizer_digest());
  provenance.set_manifest_digest(loaded.digest);
  provenance.set_requests_digest(loaded.manifest.requests_digest());
  provenance.set_first_token(loaded.manifest.first_token());
  provenance.set_first_token_is_bos(loaded.manifest.first_token_is_bos());
  provenance.set_numerics_version(catalog::kNumericsVersion);
  provenance.set_server_version(options_.server_version);
  provenance.set_samples_per_unit(options_.samples_per_unit);
  provenance.set_rules_per_unit(options_.rules_per_unit);
  return jobs_.SetProvenance(job.name(), provenance);
}

absl::StatusOr<bool> JobFlow::AddStage(const v1::Job& job, Stage stage, v1::StagePlan plan,
                                       const LoadedManifest* loaded) {
  StageRecord record;
  record.job = job.name();
  record.stage = stage;
  record.units = UnitCount(plan);
  record.rows = RowCount(plan);
  record.plan = std::move(plan);
  std::vector<store::ReusedUnit> reused;
  if (loaded != nullptr) {
    record.manifest_digest = loaded->digest;
    HC_ASSIGN_OR_RETURN(reused, FindReused(job, record, loaded->manifest));
  }
  const absl::Status added = jobs_.AddStage(record, reused);
  if (added.ok() && !reused.empty()) {
    HC_RETURN_IF_ERROR(curves_.Append(job, record, std::nullopt));
  }
  // Stored by a call that was told otherwise.
  if (added.ok() || absl::IsAlreadyExists(added)) return true;
  // Cancelled, paused or deleted meanwhile; whoever did that calls again.
  if (absl::IsFailedPrecondition(added) || absl::IsNotFound(added)) return false;
  return added;
}

absl::StatusOr<std::vector<store::ReusedUnit>> JobFlow::FindReused(const v1::Job& job,
                                                                   const StageRecord& stage,
                                                                   const v1::Manifest& manifest) {
  if (!reuse_ || format::WorkloadOf(job).fresh()) return std::vector<store::ReusedUnit>();
  // As it is now: the model's digest may just have been added.
  HC_ASSIGN_OR_RETURN(const v1::Job now, jobs_.GetJob(job.name()));
  absl::StatusOr<Reused> found = reuse_(now, stage, manifest);
  if (IsTransient(found.status())) return found.status();
  if (!found.ok()) {
    // Computing it anew is always right.
    spdlog::warn("{}: nothing of its {} stage is reused: {}", job.name(),
                 std::string(store::StageName(stage.stage)), found.status().ToString());
    return std::vector<store::ReusedUnit>();
  }
  if (!found->units.empty() && now.provenance().device_kind().empty()) {
    v1::Provenance provenance;
    provenance.set_dtype(found->run.dtype());
    provenance.set_device_kind(found->run.device_kind());
    provenance.set_threads(found->run.threads());
    HC_RETURN_IF_ERROR(jobs_.SetProvenance(job.name(), provenance));
  }
  return std::move(found->units);
}

absl::StatusOr<bool> JobFlow::StepChildren(const v1::Job& job,
                                           const std::vector<ChildJob>& children) {
  absl::Status failure;
  HC_ASSIGN_OR_RETURN(const bool done, ChildJobs(jobs_, post_).Advance(job, children, &failure));
  if (failure.ok()) {
    if (done) return Succeed(job, {});
    if (job.state() == v1::Job::RUNNING) return false;
    return Move({.job = job.name(),
                 .from = {v1::Job::QUEUED},
                 .to = v1::Job::RUNNING,
                 .reason = "CHILDREN_CREATED"});
  }
  // A parent that has failed needs no more from its other children.
  HC_RETURN_IF_ERROR(ChildJobs(jobs_, post_).Cancel(job, children.size()));
  return Move({.job = job.name(),
               .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING},
               .to = v1::Job::FAILED,
               .reason = *ReasonOf(failure),
               .error = format::ToRpcStatus(failure)});
}

absl::StatusOr<bool> JobFlow::Grow(const v1::Job& job, const Planner& planner,
                                   const std::vector<StageRecord>& stages) {
  if (!planner.grows(job)) return Succeed(job, stages);
  const absl::StatusOr<LoadedManifest> loaded = ManifestOf(job, stages);
  if (!loaded.ok()) return Fail(job, Annotate(loaded.status(), "manifest"));
  const absl::StatusOr<ModelFacts> model = catalog_.FindModel(format::WorkloadOf(job).model());
  if (!model.ok()) return Fail(job, model.status());
  StageRecord last = *Find(stages, planner.stages().back());
  const int before = last.plan.units_size();
  if (const absl::Status grown =
          planner.Grow(InputOf(job, *loaded, *model, last.stage), &last.plan);
      !grown.ok()) {
    return Fail(job, Annotate(grown, "choosing what to run next"));
  }
  if (last.plan.units_size() == before) return Succeed(job, stages);
  last.units = UnitCount(last.plan);
  last.rows = RowCount(last.plan);
  HC_RETURN_IF_ERROR(curves_.Append(job, last, std::nullopt));
  const absl::Status extended = jobs_.ExtendStage(last);
  // Extended by a call that was told otherwise.
  if (extended.ok() || absl::IsAborted(extended)) return true;
  // Cancelled, paused or deleted meanwhile; whoever did that calls again.
  if (absl::IsFailedPrecondition(extended) || absl::IsNotFound(extended)) return false;
  return extended;
}

absl::StatusOr<bool> JobFlow::Succeed(const v1::Job& job, const std::vector<StageRecord>& stages) {
  for (const StageRecord& stage : stages) {
    HC_RETURN_IF_ERROR(curves_.Append(job, stage, std::nullopt));
  }
  return Move({.job = job.name(),
               .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING},
               .to = v1::Job::SUCCEEDED,
               .reason = "COMPLETE"});
}

absl::StatusOr<bool> JobFlow::Fail(const v1::Job& job, const absl::Status& error) {
  if (IsTransient(error)) return error;
  return Move({.job = job.name(),
               .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING},
               .to = v1::Job::FAILED,
               .reason = ReasonOf(error).value_or(absl::StatusCodeToString(error.code())),
               .error = format::ToRpcStatus(error)});
}

absl::StatusOr<bool> JobFlow::Move(const store::StateChange& change) {
  const absl::StatusOr<v1::Job> moved = jobs_.UpdateState(change);
  if (moved.ok()) return true;
  // Somebody changed it first, and calls again.
  if (absl::IsFailedPrecondition(moved.status()) || absl::IsNotFound(moved.status())) return false;
  return moved.status();
}

void JobFlow::Forget(const std::string& job) {
  curves_.Forget(job);
  std::lock_guard lock(mutex_);
  caught_up_.erase(job);
  prepare_keys_.erase(job);
}

}  // namespace headcount::plan
