// The system's clock goes forward; the fake one goes where it is told.

#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace headcount {
namespace {

TEST(Clock, TheSystemsGoesForwardAndKnowsTheYear) {
  Clock& clock = Clock::System();
  EXPECT_EQ(&clock, &Clock::System());
  Clock::Duration last = clock.Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const Clock::Duration now = clock.Monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(clock.Wall(), std::chrono::hours(24 * 365 * 55));  // after 2024
}

TEST(Clock, TheFakeOneMovesBothTimesAndOnlyWhenTold) {
  FakeClock clock;
  const Clock::Duration monotonic = clock.Monotonic();
  const Clock::Duration wall = clock.Wall();
  EXPECT_EQ(clock.Monotonic(), monotonic);
  clock.Advance(std::chrono::milliseconds(1500));
  EXPECT_EQ(clock.Monotonic() - monotonic, std::chrono::milliseconds(1500));
  EXPECT_EQ(clock.Wall() - wall, std::chrono::milliseconds(1500));
}

}  // namespace
}  // namespace headcount
