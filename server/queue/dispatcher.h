// What a worker should be doing: the registry of workers, their leases, and the answer to every
// Synchronize. Knows neither gRPC nor threads: server/api holds calls and calls back.
//
// A call that changes nothing may be held. The API then keeps it for at most `hold_for`, asks
// Recheck with the same request whenever the listener fires, and answers with `response` at the
// latest when the time is over.
//
// Leases live in the store; the registry is memory and rebuilds itself from what workers report
// after a restart. A lease ends when its worker says so, when the worker is silent for a term
// (Tick), or when its launcher saw it die (WorkerDied). The third failure in a row of one unit
// fails its job (INTERNAL, POISON_TASK). Thread-safe. Errors: those named at each method, and the
// store's.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "headcount/v1/catalog_service.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/queue/policy.h"
#include "server/queue/worker_registry.h"
#include "server/store/job_store.h"

namespace headcount::queue {

struct DispatcherOptions {
  Clock::Duration lease = std::chrono::seconds(30);
  Clock::Duration longest_hold = std::chrono::seconds(10);  // never over a third of the lease
  PolicyParameters policy;                                  // task_target from the config
  int poison_failures = 3;
};

struct SyncOutcome {
  v1::SynchronizeResponse response;  // the desired state now
  bool hold = false;                 // it is what the worker reported: the call may wait
  Clock::Duration hold_for{};
};

class Dispatcher {
 public:
  // Neither is owned.
  Dispatcher(store::JobStore& jobs, Clock& clock, DispatcherOptions options);

  // `changed`: some held call may now have another answer; Recheck them all. `advance`: the job's
  // flow should look at it (a lease ended). Both are called outside any lock, from the thread that
  // caused it. Set before use.
  void SetListener(std::function<void()> changed);
  void SetAdvance(std::function<void(const std::string& job)> advance);

  // ALREADY_EXISTS (WORKER_ID_IN_USE): another live instance has this id. FAILED_PRECONDITION
  // (NUMERICS_VERSION): the worker computes other numbers than this server keeps.
  // INVALID_ARGUMENT: no id or instance.
  absl::StatusOr<SyncOutcome> Synchronize(const v1::SynchronizeRequest& request);
  // The same call, still held: renews nothing and takes no report twice.
  absl::StatusOr<SyncOutcome> Recheck(const v1::SynchronizeRequest& request);

  // Work may have appeared, or a job's state changed: job created, paused, resumed, cancelled, a
  // stage added. Fires `changed`.
  void NotifyChanged();

  // Ends leases whose term is over and forgets workers that are long gone. Once a second.
  absl::Status Tick();

  // Its launcher saw the process end: its leases are free at once, those of its other lane too.
  // `instance` empty: whichever lives.
  absl::Status WorkerDied(const std::string& worker, const std::string& instance,
                          const std::string& detail);

  // NOT_FOUND when there is no live worker of that id.
  absl::StatusOr<v1::WorkerInfo> Drain(const std::string& worker, const std::string& reason);

  // All known workers, by id; `state` is starting, idle, running, draining or lost.
  std::vector<v1::WorkerInfo> Workers() const;
  // Measured rows per second of the workers that are on the job now; 0: unknown.
  double RowsPerSecond(const std::string& job) const;
  // Leases that ended without their work being done, by cause, since the start. For metrics.
  std::map<std::string, int64_t> LostTasks() const;

 private:
  // What is to be called once the lock is released.
  struct After {
    bool changed = false;
    std::set<std::string> advance;
  };

  // --- dispatcher.cc: the answer to a call ---
  absl::StatusOr<SyncOutcome> Answer(const v1::SynchronizeRequest& request, bool held);
  absl::StatusOr<SyncOutcome> AnswerLocked(const v1::SynchronizeRequest& request, bool held,
                                           After* after);
  absl::StatusOr<SyncOutcome> ContinueTask(Worker& worker, const v1::CurrentTask& task, bool held);
  absl::StatusOr<SyncOutcome> NextTask(Worker& worker);
  absl::StatusOr<std::optional<store::Lease>> TakeLease(Worker& worker,
                                                        const store::QueueView& view);
  absl::StatusOr<SyncOutcome> Start(Worker& worker, const store::Lease& lease, const v1::Job& job);
  std::map<std::string, Clock::Duration> WaitedFor(const store::QueueView& view);
  SyncOutcome Order(Worker& worker, v1::SynchronizeResponse response, const std::string& order);
  SyncOutcome Outcome(v1::SynchronizeResponse response, bool hold) const;
  absl::StatusOr<v1::Task> MakeTask(const store::Lease& lease, const v1::Job& job, bool whole);
  void Fire(const After& after);

  // --- dispatcher_leases.cc: how leases end ---
  absl::Status FinishTask(Worker& worker, const v1::CurrentTask& task, After* after);
  absl::Status FinishFailed(const store::Lease& lease, const absl::Status& error, After* after);
  absl::Status EndLease(const store::Lease& lease, store::LeaseEnd end, const std::string& cause,
                        const std::string& detail, After* after);
  absl::Status EndLeasesOf(const std::string& worker, store::LeaseEnd end, const std::string& cause,
                           const std::string& detail, After* after);
  absl::Status AfterLoss(const store::EndedLease& ended, const std::string& cause,
                         const std::string& detail, After* after);
  absl::Status FailJob(const std::string& job, const absl::Status& error, After* after);
  absl::StatusOr<std::optional<store::Lease>> LiveLease(const v1::CurrentTask& task);
  // Adds the time since the last charge to the owner's accelerator-seconds.
  void Charge(Worker& worker, bool at_once);

  store::JobStore& jobs_;
  Clock& clock_;
  const DispatcherOptions options_;
  std::function<void()> changed_;
  std::function<void(const std::string&)> advance_;

  mutable std::mutex mutex_;  // guards what follows; held over store calls, never over callbacks
  WorkerRegistry workers_;
  std::map<std::string, Clock::Duration> served_;      // job -> when it last had a worker
  std::map<std::string, std::string> last_failed_on_;  // job -> worker
  std::map<std::string, int64_t> lost_tasks_;          // by cause
};

}  // namespace headcount::queue
