// Tells a running task to stop, and why. The flag is what the engine looks at between batches; the
// condition lets waits (a full buffer, a server that is away) end at once. The first reason stays.
// Thread-safe, no errors.

#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "worker/engine/engine.h"

namespace headcount::agent {

enum class StopReason {
  kNone,
  kCancel,  // the server wants the task back: RELEASED, results that are not stored are dropped
  kDrain,   // this process ends: RELEASED once computed units are stored
  kLost,    // the lease is gone: nothing of the task is worth anything any more
};

class StopSignal {
 public:
  void Stop(StopReason reason) {
    {
      std::lock_guard lock(mutex_);
      if (reason_ == StopReason::kNone || reason == StopReason::kLost) reason_ = reason;
      flag_.store(true);
    }
    changed_.notify_all();
  }
  bool stopped() const { return flag_.load(); }
  StopReason reason() const {
    std::lock_guard lock(mutex_);
    return reason_;
  }
  const engine::CancelFlag& flag() const { return flag_; }

  // True when it was stopped, false when the time is over.
  bool WaitFor(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return flag_.load(); });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StopReason reason_ = StopReason::kNone;
  engine::CancelFlag flag_ = false;
};

// Waiting times of repeated tries: 0.1 s, doubled up to 5 s.
class Backoff {
 public:
  std::chrono::milliseconds Next() {
    const auto now = next_;
    next_ = std::min(next_ * 2, std::chrono::milliseconds(5'000));
    return now;
  }
  void Reset() { next_ = kFirst; }

 private:
  static constexpr std::chrono::milliseconds kFirst{100};
  std::chrono::milliseconds next_ = kFirst;
};

}  // namespace headcount::agent
