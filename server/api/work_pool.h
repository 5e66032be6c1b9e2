// Threads for what may block (store, exports, fsync), so that gRPC's own threads never wait. The
// queue is bounded: what does not fit is refused at once instead of piling up. Thread-safe.
//
// Work must not throw (guard.h). The destructor runs what is queued, then joins.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace headcount::server {

class WorkPool {
 public:
  WorkPool(int threads, size_t longest_queue);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // False when the queue is full; `work` is then not run.
  [[nodiscard]] bool TryRun(std::function<void()> work);
  // Never refused: for the next step of a call that was let in, of which there is one a call.
  void Run(std::function<void()> work);

 private:
  void Loop();

  const size_t longest_queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace headcount::server
