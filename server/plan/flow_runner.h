// Runs JobFlow on threads of its own, so that neither a client's nor a worker's call waits for a
// plan. One job is worked on by one thread at a time, in the order of its news; while one job is
// being planned the others go on. Posting is cheap; posting what already waits adds nothing. A job
// whose turn failed (store not available) waits for the next Tick.
//
// Thread-safe. Stopping finishes the jobs it is at and drops the rest: all of it is done again at
// the next start.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "server/plan/job_flow.h"

namespace headcount::plan {

class FlowRunner {
 public:
  explicit FlowRunner(JobFlow& flow, int threads = 3);
  ~FlowRunner();

  void Post(const std::string& job);
  void PostUnit(const std::string& job, store::Stage stage, int64_t unit);
  // Tries again what failed. Once a second.
  void Tick();
  // Waits until nothing waits and nothing runs.
  void WaitIdle();
  // No job's flow runs after it, nor is any listener of the flow called. Stopping twice is fine.
  void Stop();

 private:
  // (job, stage or -1, unit)
  using Item = std::tuple<std::string, int, int64_t>;

  void Add(Item item);
  void Loop();
  // The first that waits whose job nobody works on; end() when there is none.
  std::deque<Item>::iterator NextLocked();
  absl::Status Run(const Item& item);

  JobFlow& flow_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::set<Item> waiting_;
  std::set<std::string> failed_;
  std::set<std::string> running_;  // jobs
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace headcount::plan
