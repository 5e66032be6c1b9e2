// The workers that have called, by id: what they said last and what they were told. Memory only; it
// rebuilds itself from the workers' calls. Part of the Dispatcher, which holds its lock.
//
// Not thread-safe. Errors: those of Synchronize (dispatcher.h).

#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "headcount/v1/catalog_service.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/queue/policy.h"

namespace headcount::queue {

struct Worker {
  std::string id;
  std::string instance;  // of the process
  Lane lane = Lane::kAny;
  v1::WorkerDevice device;
  std::string loaded_model;
  double rows_per_second = 0;
  double tokens_per_second = 0;
  Clock::Duration last_call{};
  bool gone = false;     // silent for a term, or seen to die
  bool leaving = false;  // says that it takes no more tasks
  bool drain = false;    // the admin wants it to stop
  std::string drain_reason;

  // The lease it works under; empty: idle.
  std::string task;
  std::string job;
  std::string owner;
  v1::CurrentTask::Phase phase = v1::CurrentTask::PHASE_UNSPECIFIED;
  Clock::Duration charged_until{};  // of the owner's accelerator-seconds

  // The last order to stop something it got ("cancel <task>", "drain"), so that repeating the call
  // does not spin.
  std::string told;

  void BecomeIdle() {
    task.clear();
    job.clear();
    owner.clear();
    phase = v1::CurrentTask::PHASE_UNSPECIFIED;
  }
};

class WorkerRegistry {
 public:
  // Checks the caller and takes in what it says. `replaced` is set when another process had this
  // id, whose leases nobody works on any more.
  absl::StatusOr<Worker*> Register(const v1::SynchronizeRequest& request, Clock::Duration now,
                                   bool* replaced);
  // The same for a call that is still held: it must be that of the process that has the id now.
  absl::StatusOr<Worker*> FindHeld(const v1::SynchronizeRequest& request);

  Worker* Find(const std::string& id);
  // The other lane of the same process; null where it has none.
  Worker* Beside(const Worker& worker);
  // Marks workers that have been silent for `term` as gone and forgets those long gone; the ones
  // that went just now.
  std::vector<Worker*> MarkSilent(Clock::Duration now, Clock::Duration term);

  // What the policy may hope of workers other than `id`.
  std::vector<PolicyWorker> Others(const std::string& id) const;
  // One a process: a lane for prepare stages shows where the device has nothing to do.
  std::vector<v1::WorkerInfo> Infos() const;
  double RowsPerSecond(const std::string& job) const;

 private:
  std::map<std::string, Worker> workers_;
};

v1::WorkerInfo InfoOf(const Worker& worker);

}  // namespace headcount::queue
