// Time, injected. Everything that decides by time takes a Clock; tests use FakeClock and never
// sleep. Thread-safe. No errors.

#pragma once

#include <chrono>
#include <mutex>

namespace headcount {

class Clock {
 public:
  using Duration = std::chrono::nanoseconds;

  virtual ~Clock() = default;
  // Since an arbitrary start, never going back: leases, deadlines, rates.
  virtual Duration Monotonic() const = 0;
  // Since the Unix epoch: what people read. Never decides anything.
  virtual Duration Wall() const = 0;

  static Clock& System();
};

class FakeClock final : public Clock {
 public:
  Duration Monotonic() const override {
    std::lock_guard lock(mutex_);
    return monotonic_;
  }
  Duration Wall() const override {
    std::lock_guard lock(mutex_);
    return wall_;
  }
  void Advance(Duration by) {
    std::lock_guard lock(mutex_);
    monotonic_ += by;
    wall_ += by;
  }

 private:
  mutable std::mutex mutex_;
  Duration monotonic_ = std::chrono::hours(1);
  Duration wall_ = std::chrono::seconds(1'760'000'000);
};

}  // namespace headcount
