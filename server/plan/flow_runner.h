// Runs JobFlow on one thread of its own, so that neither a client's nor a worker's call waits for a
// plan. Posting is cheap; posting a job that already waits with the same news adds nothing. A job
// whose turn failed (store not available) waits for the next Tick.
//
// Thread-safe. The destructor finishes the job it is at and drops the rest: all of it is done again
// at the next start.

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

#include "server/plan/job_flow.h"

namespace headcount::plan {

class FlowRunner {
 public:
  explicit FlowRunner(JobFlow& flow);
  ~FlowRunner();

  void Post(const std::string& job);
  void PostUnit(const std::string& job, store::Stage stage, int64_t unit);
  // Tries again what failed. Once a second.
  void Tick();
  // Waits until nothing waits and nothing runs.
  void WaitIdle();

 private:
  // (job, stage or -1, unit)
  using Item = std::tuple<std::string, int, int64_t>;

  void Add(Item item);
  void Loop();

  JobFlow& flow_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::set<Item> waiting_;
  std::set<std::string> failed_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headcount::plan
