// How fast this worker is: tokens and rows per second over its latest units, at least the last
// minute of computing. The server cuts tasks by it. Thread-safe, no errors.

#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace headcount::agent {

class RateMeter {
 public:
  void Add(double seconds, int64_t tokens, int64_t rows) {
    std::lock_guard lock(mutex_);
    units_.push_back({seconds, tokens, rows});
    seconds_ += seconds;
    tokens_ += tokens;
    rows_ += rows;
    while (units_.size() > 1 && seconds_ - units_.front().seconds >= kWindowSeconds) {
      seconds_ -= units_.front().seconds;
      tokens_ -= units_.front().tokens;
      rows_ -= units_.front().rows;
      units_.pop_front();
    }
  }
  // 0: not known yet.
  double tokens_per_second() const {
    std::lock_guard lock(mutex_);
    return seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
  }
  double rows_per_second() const {
    std::lock_guard lock(mutex_);
    return seconds_ > 0 ? static_cast<double>(rows_) / seconds_ : 0;
  }

 private:
  static constexpr double kWindowSeconds = 60;
  struct Entry {
    double seconds;
    int64_t tokens;
    int64_t rows;
  };
  mutable std::mutex mutex_;
  std::deque<Entry> units_;
  double seconds_ = 0;
  int64_t tokens_ = 0;
  int64_t rows_ = 0;
};

}  // namespace headcount::agent
