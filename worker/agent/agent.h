// A worker's life: ask the server what to do (Synchronize), do it, report, ask again. Three
// threads: the caller of Run talks to the server and thereby renews the lease, one thread computes,
// one sends results. A worker outlives the server: it goes on computing and keeps results until the
// server is back, and gives up after `orphan_exit`.
//
// Run is called once; Drain may be called from any thread, any number of times. Errors of a task go
// to the server as CurrentTask.error; Run itself fails only when the worker cannot go on.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "headcount/v1/worker_service.grpc.pb.h"
#include "worker/agent/reporter.h"
#include "worker/agent/stop_signal.h"
#include "worker/agent/task_runner.h"

namespace headcount::agent {

struct AgentOptions {
  std::string worker;    // stable id of this process's place, or of a lane of it
  std::string instance;  // UUID of this process
  v1::SynchronizeRequest::Lane lane = v1::SynchronizeRequest::ANY;
  std::string version;
  v1::WorkerDevice device;
  std::chrono::milliseconds orphan_exit = std::chrono::minutes(10);
  std::chrono::milliseconds idle_unload = std::chrono::minutes(15);  // of a model nobody uses
  std::chrono::milliseconds drain_limit = std::chrono::seconds(10);  // to hand in what is computed
  int64_t result_bytes = int64_t{64} << 20;  // of results that wait for the server
};

class Agent {
 public:
  // Neither stub nor clock is owned; both outlive the agent.
  Agent(AgentOptions options, v1::WorkerService::StubInterface* stub, EngineFactory engines,
        Preparer prepare, Clock& clock);
  ~Agent();

  // Until drained (OK), without a server for `orphan_exit` (DEADLINE_EXCEEDED), or refused for good
  // by it (its status).
  absl::Status Run();

  // Stop between two batches, hand in what is computed, give the lease back, end.
  void Drain();

 private:
  // One lease, from its start to the report of its end.
  struct Lease {
    v1::Task task;
    std::shared_ptr<StopSignal> stop = std::make_shared<StopSignal>();
    // Guarded by Agent::mutex_.
    v1::CurrentTask::Phase phase = v1::CurrentTask::LOADING;
    v1::CurrentTask::Phase outcome = v1::CurrentTask::PHASE_UNSPECIFIED;  // of computing, when over
    absl::Status error;
    int64_t units_done = 0;
    int64_t batches_done = 0;
    int64_t unsent = 0;  // chunks in the reporter
  };
  using LeasePtr = std::shared_ptr<Lease>;
  struct Reported {  // what a Synchronize said, to read its answer by
    LeasePtr lease;
    bool ended = false;
    uint64_t version = 0;
  };

  v1::SynchronizeRequest MakeRequest(Reported* reported);
  absl::Status Call(const v1::SynchronizeRequest& request, uint64_t version,
                    v1::SynchronizeResponse* response);
  void Follow(const Reported& reported, const v1::SynchronizeResponse& response);
  void StartLocked(const v1::Task& task);
  bool Changed(uint64_t version);
  bool MayLeave();
  bool IsOrphan() const;

  void ComputeLoop();
  void Compute(const LeasePtr& lease);
  void OnReported(const PendingChunk& chunk, const absl::Status& status);

  void StopLocked(Lease& lease, StopReason reason);
  void SettleLocked(Lease& lease);
  void ChangedLocked();

  const AgentOptions options_;
  v1::WorkerService::StubInterface* stub_;
  Clock& clock_;
  TaskRunner runner_;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t version_ = 0;  // grows with every change that the server should hear of at once
  LeasePtr current_;
  bool draining_ = false;
  Clock::Duration drain_began_{};
  bool closing_ = false;  // Run is over
  grpc::ClientContext* calling_ = nullptr;
  Clock::Duration last_contact_{};
  std::unique_ptr<Reporter> reporter_;
};

}  // namespace headcount::agent
