// See clock.h.

#include "common/base/clock.h"

namespace headcount {
namespace {

class SystemClock final : public Clock {
 public:
  Duration Monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  Duration Wall() const override { return std::chrono::system_clock::now().time_since_epoch(); }
};

}  // namespace

Clock& Clock::System() {
  static SystemClock clock;
  return clock;
}

}  // namespace headcount
