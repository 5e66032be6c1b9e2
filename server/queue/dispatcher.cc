// The answer to a worker's call. See dispatcher.h; how leases end is in dispatcher_leases.cc.

#include "server/queue/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "server/plan/controls.h"
#include "server/plan/cutter.h"

namespace headcount::queue {
namespace {

// A worker that was answered without news calls again at once: the next call is held too.
constexpr Clock::Duration kAgain = std::chrono::milliseconds(100);
constexpr Clock::Duration kRepeatOrder = std::chrono::seconds(1);
constexpr int kLeaseTries = 3;

bool MayRun(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::QUEUED:
    case v1::Job::STARTING:
    case v1::Job::RUNNING:
      return true;
    default:
      return false;
  }
}

void SetTimestamp(Clock::Duration since_epoch, google::protobuf::Timestamp* out) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  out->set_seconds(seconds.count());
  out->set_nanos(static_cast<int32_t>((since_epoch - seconds).count()));
}

void SetDuration(Clock::Duration duration, google::protobuf::Duration* out) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  out->set_seconds(seconds.count());
  out->set_nanos(static_cast<int32_t>((duration - seconds).count()));
}

v1::SynchronizeResponse CancelResponse(const std::string& task) {
  v1::SynchronizeResponse response;
  response.mutable_cancel()->set_task(task);
  return response;
}

v1::SynchronizeResponse DrainResponse(const std::string& reason) {
  v1::SynchronizeResponse response;
  response.mutable_drain()->set_reason(reason);
  return response;
}

v1::SynchronizeResponse IdleResponse() {
  v1::SynchronizeResponse response;
  response.mutable_idle();
  return response;
}

bool IsAtWork(const v1::CurrentTask& task) {
  return task.phase() == v1::CurrentTask::LOADING || task.phase() == v1::CurrentTask::RUNNING ||
         task.phase() == v1::CurrentTask::PHASE_UNSPECIFIED;
}

}  // namespace

Dispatcher::Dispatcher(store::JobStore& jobs, Clock& clock, DispatcherOptions options)
    : jobs_(jobs), clock_(clock), options_(std::move(options)) {}

void Dispatcher::SetListener(std::function<void()> changed) { changed_ = std::move(changed); }

void Dispatcher::SetAdvance(std::function<void(const std::string& job)> advance) {
  advance_ = std::move(advance);
}

absl::StatusOr<SyncOutcome> Dispatcher::Synchronize(const v1::SynchronizeRequest& request) {
  return Answer(request, /*held=*/false);
}

absl::StatusOr<SyncOutcome> Dispatcher::Recheck(const v1::SynchronizeRequest& request) {
  return Answer(request, /*held=*/true);
}

absl::StatusOr<SyncOutcome> Dispatcher::Answer(const v1::SynchronizeRequest& request, bool held) {
  After after;
  absl::StatusOr<SyncOutcome> outcome;
  {
    std::lock_guard lock(mutex_);
    outcome = AnswerLocked(request, held, &after);
  }
  Fire(after);
  return outcome;
}

absl::StatusOr<SyncOutcome> Dispatcher::AnswerLocked(const v1::SynchronizeRequest& request,
                                                     bool held, After* after) {
  Worker* worker = nullptr;
  if (held) {
    HC_ASSIGN_OR_RETURN(worker, workers_.FindHeld(request));
  } else {
    bool replaced = false;
    HC_ASSIGN_OR_RETURN(worker, workers_.Register(request, clock_.Monotonic(), &replaced));
    if (replaced) {
      HC_RETURN_IF_ERROR(EndLeasesOf(worker->id, store::LeaseEnd::kCrash, "WORKER_DIED",
                                     "another process has taken the worker's place", after));
    }
  }
  if (request.has_task() && IsAtWork(request.task())) {
    return ContinueTask(*worker, request.task(), held);
  }
  if (request.has_task() && !held) HC_RETURN_IF_ERROR(FinishTask(*worker, request.task(), after));
  if (!held && (worker->leaving || worker->drain)) {
    // It was given a task that it will not take up: the answer crossed the word that it leaves.
    HC_RETURN_IF_ERROR(
        EndLeasesOf(worker->id, store::LeaseEnd::kReleased, "DRAINED", "it leaves", after));
  }
  return NextTask(*worker);
}

absl::StatusOr<SyncOutcome> Dispatcher::ContinueTask(Worker& worker, const v1::CurrentTask& task,
                                                     bool held) {
  std::optional<store::Lease> lease;
  if (held) {
    HC_ASSIGN_OR_RETURN(lease, LiveLease(task));
  } else {
    absl::StatusOr<store::Lease> renewed =
        jobs_.RenewLease(task.task(), task.attempt(), options_.lease);
    if (renewed.ok()) {
      lease = *std::move(renewed);
    } else if (!absl::IsAborted(renewed.status()) && !absl::IsNotFound(renewed.status())) {
      return renewed.status();
    }
  }
  if (!lease.has_value() || lease->worker != worker.id) {
    // Lost, or its last unit has just been stored.
    if (worker.task == task.task()) Charge(worker, /*at_once=*/true);
    worker.BecomeIdle();
    return Order(worker, CancelResponse(task.task()), absl::StrCat("cancel ", task.task()));
  }
  HC_ASSIGN_OR_RETURN(v1::Job job, jobs_.GetJob(lease->job));
  if (worker.task != task.task()) {
    worker.BecomeIdle();
    worker.task = task.task();
    worker.job = lease->job;
    worker.owner = job.owner();
    worker.charged_until = clock_.Monotonic();
  }
  if (!held) {
    worker.phase = task.phase();
    Charge(worker, /*at_once=*/false);
    served_[lease->job] = clock_.Monotonic();
    // QUEUED: paused and resumed before the worker saw it.
    const bool waits = job.state() == v1::Job::STARTING || job.state() == v1::Job::QUEUED;
    if (task.phase() == v1::CurrentTask::RUNNING && waits) {
      const absl::StatusOr<v1::Job> running =
          jobs_.UpdateState({.job = lease->job,
                             .from = {v1::Job::STARTING, v1::Job::QUEUED},
                             .to = v1::Job::RUNNING,
                             .reason = "RUNNING"});
      if (running.ok()) {
        job = *running;
      } else if (!absl::IsFailedPrecondition(running.status())) {
        return running.status();
      }
    }
  }
  if (!MayRun(job)) {
    return Order(worker, CancelResponse(task.task()), absl::StrCat("cancel ", task.task()));
  }
  if (worker.drain) return Order(worker, DrainResponse(worker.drain_reason), "drain");
  v1::SynchronizeResponse response;
  HC_ASSIGN_OR_RETURN(*response.mutable_run(), MakeTask(*lease, job, /*whole=*/false));
  return Outcome(std::move(response), /*hold=*/true);
}

absl::StatusOr<SyncOutcome> Dispatcher::NextTask(Worker& worker) {
  worker.BecomeIdle();
  if (worker.drain) return Order(worker, DrainResponse(worker.drain_reason), "drain");
  if (worker.leaving) {
    // It exits now: not kept waiting, and its place is free for the next process at once.
    worker.gone = true;
    return Outcome(IdleResponse(), /*hold=*/false);
  }
  for (int i = 0; i < kLeaseTries; ++i) {
    HC_ASSIGN_OR_RETURN(const store::QueueView view, jobs_.View());
    const absl::StatusOr<std::optional<store::Lease>> lease = TakeLease(worker, view);
    if (absl::IsAborted(lease.status())) continue;  // the view was out of date
    HC_RETURN_IF_ERROR(lease.status());
    if (!lease->has_value()) break;
    HC_ASSIGN_OR_RETURN(const v1::Job job, jobs_.GetJob((*lease)->job));
    if (MayRun(job)) return Start(worker, **lease, job);
    // Given before a restart, and its job has been stopped since: nobody is working on it.
    HC_RETURN_IF_ERROR(jobs_
                           .EndLease((*lease)->task, (*lease)->attempt, store::LeaseEnd::kReleased,
                                     "RELEASED", "its job may not run")
                           .status());
  }
  return Outcome(IdleResponse(), /*hold=*/true);
}

// The lease that the worker holds without knowing (the answer that gave it was lost, or the server
// was restarted), or a new one.
absl::StatusOr<std::optional<store::Lease>> Dispatcher::TakeLease(Worker& worker,
                                                                  const store::QueueView& view) {
  for (const store::Lease& lease : view.leases) {
    if (lease.worker == worker.id) {
      return jobs_.RenewLease(lease.task, lease.attempt, options_.lease);
    }
  }
  const std::map<std::string, Clock::Duration> waited = WaitedFor(view);
  std::set<std::string> failed_here;
  std::set<std::string> lost;
  for (const auto& [job, id] : last_failed_on_) {
    if (id == worker.id) failed_here.insert(job);
    lost.insert(job);
  }
  const Worker* other_lane = workers_.Beside(worker);
  const std::string beside = other_lane == nullptr || other_lane->gone ? "" : other_lane->job;
  const PolicyWorker self{.id = worker.id,
                          .lane = worker.lane,
                          .loaded_model = worker.loaded_model,
                          .rows_per_second = worker.rows_per_second};
  const std::vector<PolicyWorker> others = workers_.Others(worker.id);
  const std::optional<store::Assignment> chosen = ChooseTask({.view = view,
                                                              .worker = self,
                                                              .others = others,
                                                              .waited = waited,
                                                              .failed_here = failed_here,
                                                              .lost = lost,
                                                              .beside = beside},
                                                             options_.policy);
  if (!chosen.has_value()) return std::nullopt;
  return jobs_.LeaseTask(*chosen, options_.lease);
}

absl::StatusOr<SyncOutcome> Dispatcher::Start(Worker& worker, const store::Lease& lease,
                                              const v1::Job& job) {
  v1::SynchronizeResponse response;
  HC_ASSIGN_OR_RETURN(*response.mutable_run(), MakeTask(lease, job, /*whole=*/true));
  worker.task = lease.task;
  worker.job = lease.job;
  worker.owner = job.owner();
  worker.charged_until = clock_.Monotonic();
  worker.told.clear();
  served_[lease.job] = clock_.Monotonic();
  return Outcome(std::move(response), /*hold=*/false);
}

std::map<std::string, Clock::Duration> Dispatcher::WaitedFor(const store::QueueView& view) {
  const Clock::Duration now = clock_.Monotonic();
  std::set<std::string> known;
  for (const store::Lease& lease : view.leases) {
    served_[lease.job] = now;
    known.insert(lease.job);
  }
  std::map<std::string, Clock::Duration> waited;
  for (const store::RunnableStage& stage : view.runnable) {
    known.insert(stage.job);
    const auto served = served_.find(stage.job);
    waited[stage.job] =
        served == served_.end() ? clock_.Wall() - stage.created : now - served->second;
  }
  // Jobs that have ended, or have nothing left to give away.
  std::erase_if(served_, [&known](const auto& entry) { return !known.contains(entry.first); });
  std::erase_if(last_failed_on_,
                [&known](const auto& entry) { return !known.contains(entry.first); });
  return waited;
}

// An order that the worker has got before is held, because it is about to follow it; not for long,
// because the answer that brought it may have been lost.
SyncOutcome Dispatcher::Order(Worker& worker, v1::SynchronizeResponse response,
                              const std::string& order) {
  const bool told = worker.told == order;
  worker.told = order;
  SyncOutcome outcome = Outcome(std::move(response), /*hold=*/told);
  outcome.hold_for = std::min(outcome.hold_for, kRepeatOrder);
  return outcome;
}

SyncOutcome Dispatcher::Outcome(v1::SynchronizeResponse response, bool hold) const {
  SyncOutcome outcome;
  outcome.hold = hold;
  outcome.hold_for = std::min(options_.longest_hold, options_.lease / 3);
  SetDuration(kAgain, response.mutable_next_sync_in());
  SetTimestamp(clock_.Wall() + kAgain, response.mutable_next_sync_time());
  outcome.response = std::move(response);
  return outcome;
}

absl::StatusOr<v1::Task> Dispatcher::MakeTask(const store::Lease& lease, const v1::Job& job,
                                              bool whole) {
  v1::Task task;
  task.set_name(lease.task);
  task.set_job(lease.job);
  task.set_stage(std::string(store::StageName(lease.stage)));
  task.set_first_unit(lease.first_unit);
  task.set_unit_count(lease.unit_count);
  task.set_attempt(lease.attempt);
  SetDuration(options_.lease, task.mutable_lease_duration());
  SetTimestamp(clock_.Wall() + (lease.expires - clock_.Monotonic()),
               task.mutable_lease_expire_time());
  if (!whole) return task;

  HC_ASSIGN_OR_RETURN(const store::StageRecord stage, jobs_.GetStage(lease.job, lease.stage));
  *task.mutable_workload() = format::WorkloadOf(job);
  task.set_model(task.workload().model());
  task.set_manifest_digest(stage.manifest_digest);
  if (lease.stage == store::Stage::kPrepare) return task;
  std::set<int> rules;
  for (int64_t unit = lease.first_unit; unit < lease.first_unit + lease.unit_count; ++unit) {
    HC_ASSIGN_OR_RETURN(*task.add_units(), plan::RangeOfUnit(stage.plan, unit));
    const v1::UnitRange& range = *task.units().rbegin();
    for (int i = 0; i < range.rules(); ++i) rules.insert(range.first_rule() + i);
  }
  // What the units cover, of how many samples.
  int64_t first = task.units(0).first_sample(), end = first;
  for (const v1::UnitRange& range : task.units()) {
    first = std::min(first, range.first_sample());
    end = std::max(end, range.first_sample() + range.samples());
  }
  const v1::SampleBlock& last = *stage.plan.sample_blocks().rbegin();
  const int64_t samples = last.first_sample() + last.samples();
  for (int rule : rules) {
    *task.add_rules() = plan::RuleForSamples(stage.plan.rules(rule), first, end - first, samples);
  }
  *task.mutable_means() = stage.plan.means();
  if (stage.plan.has_record()) *task.mutable_record() = stage.plan.record();
  // Prompts travel in the manifest from here on.
  if (task.workload().has_requests()) task.mutable_workload()->mutable_requests()->Clear();
  return task;
}

void Dispatcher::NotifyChanged() {
  if (changed_) changed_();
}

absl::StatusOr<v1::WorkerInfo> Dispatcher::Drain(const std::string& worker,
                                                 const std::string& reason) {
  v1::WorkerInfo info;
  {
    std::lock_guard lock(mutex_);
    Worker* found = workers_.Find(worker);
    if (found == nullptr || found->gone) {
      return WithReason(absl::NotFoundError(absl::StrCat("worker ", worker, ": none is alive")),
                        "WORKER_NOT_FOUND");
    }
    found->drain = true;
    found->drain_reason = reason;
    info = InfoOf(*found);
  }
  NotifyChanged();
  return info;
}

std::vector<v1::WorkerInfo> Dispatcher::Workers() const {
  std::lock_guard lock(mutex_);
  return workers_.Infos();
}

double Dispatcher::RowsPerSecond(const std::string& job) const {
  std::lock_guard lock(mutex_);
  return workers_.RowsPerSecond(job);
}

std::map<std::string, int64_t> Dispatcher::LostTasks() const {
  std::lock_guard lock(mutex_);
  return lost_tasks_;
}

void Dispatcher::Fire(const After& after) {
  if (advance_) {
    for (const std::string& job : after.advance) advance_(job);
  }
  if (after.changed) NotifyChanged();
}

}  // namespace headcount::queue
