// How leases end: the worker's word, silence, death, and what each means for the job. See
// dispatcher.h.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/rpc_status.h"
#include "server/plan/cutter.h"
#include "server/queue/dispatcher.h"
#include "spdlog/spdlog.h"

namespace headcount::queue {
namespace {

// Shorter stretches are charged with the next one: each charge is a transaction.
constexpr Clock::Duration kChargeEvery = std::chrono::seconds(5);

// Trying again, here or elsewhere, gives the same error.
bool IsFatal(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:  // out of memory with a batch of one
    case absl::StatusCode::kNotFound:
      return true;
    default:
      return false;
  }
}

// The task stopped without a fault of anybody.
bool IsRelease(const absl::Status& error) {
  return absl::IsCancelled(error) || absl::IsAborted(error);
}

std::string JobOf(const std::string& task) {
  const size_t end = task.rfind("/tasks/");
  return end == std::string::npos ? std::string() : task.substr(0, end);
}

double Seconds(Clock::Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

absl::Status Dispatcher::FinishTask(Worker& worker, const v1::CurrentTask& task, After* after) {
  if (worker.task == task.task()) Charge(worker, /*at_once=*/true);
  worker.BecomeIdle();
  worker.told.clear();
  after->changed = true;
  HC_ASSIGN_OR_RETURN(const std::optional<store::Lease> lease, LiveLease(task));
  if (const std::string job = JobOf(task.task()); !job.empty()) after->advance.insert(job);
  if (!lease.has_value() || lease->worker != worker.id) {
    // All its units are stored, or it lost the lease: either way nothing of it counts any more.
    if (task.phase() == v1::CurrentTask::DONE) last_failed_on_.erase(JobOf(task.task()));
    return absl::OkStatus();
  }
  switch (task.phase()) {
    case v1::CurrentTask::DONE:
      return EndLease(*lease, store::LeaseEnd::kCrash, "WORKER_ERROR",
                      absl::StrCat("it said that it was done with ", lease->stored_units, " of ",
                                   lease->unit_count, " units stored"),
                      after);
    case v1::CurrentTask::FAILED:
      return FinishFailed(*lease, format::FromRpcStatus(task.error()), after);
    default:
      return EndLease(*lease, store::LeaseEnd::kReleased,
                      worker.drain || worker.leaving ? "DRAINED" : "RELEASED", "", after);
  }
}

absl::Status Dispatcher::FinishFailed(const store::Lease& lease, const absl::Status& error,
                                      After* after) {
  if (IsRelease(error)) {
    return EndLease(lease, store::LeaseEnd::kReleased, "RELEASED", std::string(error.message()),
                    after);
  }
  if (!IsFatal(error)) {
    return EndLease(lease, store::LeaseEnd::kCrash, "WORKER_ERROR",
                    absl::StrCat(absl::StatusCodeToString(error.code()), ": ", error.message()),
                    after);
  }
  HC_RETURN_IF_ERROR(FailJob(lease.job, error, after));
  return EndLease(lease, store::LeaseEnd::kReleased, "JOB_FAILED", std::string(error.message()),
                  after);
}

absl::Status Dispatcher::EndLease(const store::Lease& lease, store::LeaseEnd end,
                                  const std::string& cause, const std::string& detail,
                                  After* after) {
  const absl::StatusOr<store::EndedLease> ended =
      jobs_.EndLease(lease.task, lease.attempt, end, cause, detail);
  if (absl::IsNotFound(ended.status())) return absl::OkStatus();  // deleted with its job
  HC_RETURN_IF_ERROR(ended.status());
  after->changed = true;
  after->advance.insert(lease.job);
  if (end == store::LeaseEnd::kCrash || end == store::LeaseEnd::kExpired) {
    return AfterLoss(*ended, cause, detail, after);
  }
  return absl::OkStatus();
}

absl::Status Dispatcher::EndLeasesOf(const std::string& worker, store::LeaseEnd end,
                                     const std::string& cause, const std::string& detail,
                                     After* after) {
  HC_ASSIGN_OR_RETURN(const store::QueueView view, jobs_.View());
  for (const store::Lease& lease : view.leases) {
    if (lease.worker != worker) continue;
    HC_RETURN_IF_ERROR(EndLease(lease, end, cause, detail, after));
  }
  return absl::OkStatus();
}

absl::Status Dispatcher::AfterLoss(const store::EndedLease& ended, const std::string& cause,
                                   const std::string& detail, After* after) {
  const store::Lease& lease = ended.lease;
  spdlog::warn("{} on {} was lost ({}): {}", lease.task, lease.worker, cause, detail);
  ++lost_tasks_[cause];
  last_failed_on_[lease.job] = lease.worker;
  after->changed = true;
  after->advance.insert(lease.job);
  if (ended.failures < options_.poison_failures) return absl::OkStatus();
  std::string samples;
  const absl::StatusOr<store::StageRecord> stage = jobs_.GetStage(lease.job, lease.stage);
  if (stage.ok() && lease.stage != store::Stage::kPrepare) {
    HC_ASSIGN_OR_RETURN(const v1::UnitRange range,
                        plan::RangeOfUnit(stage->plan, ended.failed_unit));
    samples = absl::StrCat(" (samples ", range.first_sample(), " to ",
                           range.first_sample() + range.samples() - 1, ")");
  }
  return FailJob(lease.job,
                 WithReason(absl::InternalError(absl::StrCat(
                                "unit ", ended.failed_unit, " of stage ",
                                std::string(store::StageName(lease.stage)), samples, " failed ",
                                ended.failures, " times in a row, last on worker ", lease.worker,
                                ": ", cause, detail.empty() ? "" : ", ", detail)),
                            "POISON_TASK"),
                 after);
}

absl::Status Dispatcher::FailJob(const std::string& job, const absl::Status& error, After* after) {
  absl::Status shown = error;
  if (error.code() == absl::StatusCode::kUnknown) {
    shown = WithReason(absl::InternalError(error.message()), "WORKER_ERROR");
  }
  const absl::StatusOr<v1::Job> failed = jobs_.UpdateState(
      {.job = job,
       .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING, v1::Job::PAUSED},
       .to = v1::Job::FAILED,
       .reason = ReasonOf(shown).value_or(absl::StatusCodeToString(shown.code())),
       .error = format::ToRpcStatus(shown)});
  after->changed = true;
  after->advance.insert(job);
  // Cancelled or deleted first.
  if (absl::IsFailedPrecondition(failed.status()) || absl::IsNotFound(failed.status())) {
    return absl::OkStatus();
  }
  return failed.status();
}

absl::StatusOr<std::optional<store::Lease>> Dispatcher::LiveLease(const v1::CurrentTask& task) {
  const std::string job = JobOf(task.task());
  if (job.empty()) return std::nullopt;
  const absl::StatusOr<std::vector<store::Lease>> leases = jobs_.ListLeases(job);
  if (absl::IsNotFound(leases.status())) return std::nullopt;
  HC_RETURN_IF_ERROR(leases.status());
  for (const store::Lease& lease : *leases) {
    if (lease.task == task.task() && lease.attempt == task.attempt()) return lease;
  }
  return std::nullopt;
}

void Dispatcher::Charge(Worker& worker, bool at_once) {
  if (worker.lane == Lane::kPrepare) return;  // the device is another's meanwhile
  const Clock::Duration now = clock_.Monotonic();
  const Clock::Duration used = now - worker.charged_until;
  if (worker.owner.empty() || used <= Clock::Duration::zero()) return;
  if (!at_once && used < kChargeEvery) return;
  const absl::Status added = jobs_.AddUsage(worker.owner, Seconds(used));
  if (added.ok()) {
    worker.charged_until = now;
  } else {
    spdlog::warn("usage of {}: {}", worker.owner, added.ToString());
  }
}

absl::Status Dispatcher::Tick() {
  After after;
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    for (Worker* worker : workers_.MarkSilent(clock_.Monotonic(), options_.lease)) {
      spdlog::warn("worker {} has been silent for {} s", worker->id, Seconds(options_.lease));
      worker->BecomeIdle();
    }
    const absl::StatusOr<std::vector<store::EndedLease>> expired = jobs_.ExpireLeases();
    status = expired.status();
    if (expired.ok()) {
      for (const store::EndedLease& ended : *expired) {
        status.Update(
            AfterLoss(ended, "LEASE_EXPIRED", "no word from it within the lease", &after));
      }
    }
  }
  Fire(after);
  return status;
}

absl::Status Dispatcher::WorkerDied(const std::string& worker, const std::string& instance,
                                    const std::string& detail) {
  After after;
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    std::vector<std::string> ids = {worker};
    Worker* found = workers_.Find(worker);
    if (found != nullptr) {
      if (!instance.empty() && found->instance != instance) return absl::OkStatus();
      std::vector<Worker*> lanes = {found};
      if (Worker* beside = workers_.Beside(*found); beside != nullptr) {
        lanes.push_back(beside);
        ids.push_back(beside->id);
      }
      for (Worker* lane : lanes) {
        Charge(*lane, /*at_once=*/true);
        lane->BecomeIdle();
        lane->gone = true;
      }
    }
    for (const std::string& id : ids) {
      status.Update(EndLeasesOf(id, store::LeaseEnd::kCrash, "WORKER_DIED", detail, &after));
    }
  }
  Fire(after);
  return status;
}

}  // namespace headcount::queue
