// WatchJob on the wire: writes what a WatchCursor says, one message at a time, and sleeps until the
// feed wakes it. A stream holds no thread. A client that has not taken the outstanding message for
// a minute is cut off: nothing more is read or kept for it, and the status waits behind the
// message. Deletes itself when gRPC is done with it.

#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/clock.h"
#include "server/api/call_stats.h"
#include "server/api/work_pool.h"
#include "server/watch/watch_cursor.h"

namespace headcount::server {

class WatchReactor final : public grpc::ServerWriteReactor<v1::JobEvent> {
 public:
  struct Environment {
    EventFeed& feed;
    Clock& clock;
    WorkPool& pool;
    CallStats& stats;
    // True once the server stops: streams end with UNAVAILABLE at their next wake.
    std::function<bool()> stopping;
    Clock::Duration longest_write = std::chrono::seconds(60);
  };

  WatchReactor(Environment environment, const std::string& job,
               std::unique_ptr<WatchCursor> cursor);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // One agent at a time moves the stream on: the pool (kPumping), gRPC (kWriting), or whoever takes
  // it out of kIdle. Only that agent may finish it, so it never works on a deleted object.
  enum class Phase { kIdle, kPumping, kWriting, kFinished };

  void Wake();
  void Pump();
  void CutOff();
  // Without the lock: gRPC may call back from within. The reactor may be gone afterwards.
  void End(const absl::Status& status);

  const Environment environment_;
  const std::unique_ptr<WatchCursor> cursor_;
  v1::JobEvent message_;

  std::mutex mutex_;  // guards what follows
  Phase phase_ = Phase::kIdle;
  bool woken_ = false;
  bool cancelled_ = false;
  bool cut_off_ = false;  // while writing: the stream is being ended under the writer
  Clock::Duration write_started_{};
  std::unique_ptr<EventFeed::Subscription> subscription_;
};

}  // namespace headcount::server
