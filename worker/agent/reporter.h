// The way of a chunk from the compute thread to the server: a buffer bounded in bytes and one
// thread that sends in order, again and again while the server is away. A resend is harmless: the
// server answers `duplicate`.
//
// Push may be called from any thread; callbacks come from the sending thread, outside any lock.
// Errors of the server that no resend can mend go to the callback.

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "headcount/v1/worker_service.grpc.pb.h"
#include "worker/agent/stop_signal.h"

namespace headcount::agent {

struct PendingChunk {
  v1::ReportHeader header;  // crc32c and bytes are filled in by Push
  std::string data;
  std::shared_ptr<StopSignal> stop;  // the task's; a stop for kCancel or kLost drops the chunk
};

class Reporter {
 public:
  // OK: stored, or a duplicate. ABORTED: the lease is gone. CANCELLED: dropped because its task was
  // stopped. Anything else: refused for good.
  using OnDone = std::function<void(const PendingChunk& chunk, const absl::Status& status)>;

  Reporter(v1::WorkerService::StubInterface* stub, int64_t byte_limit, OnDone on_done);
  ~Reporter();  // gives up what is not sent

  // Waits while the buffer is full; one chunk always fits into an empty one. False when the task
  // was cancelled or lost meanwhile; a draining one is still handed in.
  bool Push(PendingChunk chunk);

  // Wakes waits after a task's stop signal was set.
  void Poke();

 private:
  void Loop(std::stop_token token);
  absl::Status SendUntilDone(const PendingChunk& chunk, std::stop_token token);
  absl::Status Send(const PendingChunk& chunk, const std::stop_token& token);

  v1::WorkerService::StubInterface* stub_;
  const int64_t byte_limit_;
  const OnDone on_done_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<PendingChunk> queue_;
  int64_t bytes_ = 0;  // of the queue and of the chunk being sent
  grpc::ClientContext* sending_ = nullptr;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headcount::agent
