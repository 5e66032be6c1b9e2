// The bounded pool: refuses what does not fit, runs what it took.

#include "server/api/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace headcount::server {
namespace {

TEST(WorkPool, RefusesWhenItsQueueIsFullAndRunsTheRest) {
  std::atomic<int> ran = 0;
  {
    std::promise<void> gate;
    std::shared_future<void> open = gate.get_future().share();
    std::promise<void> started;
    WorkPool pool(1, 2);
    ASSERT_TRUE(pool.TryRun([&] {
      started.set_value();
      open.wait();
      ++ran;
    }));
    started.get_future().wait();
    EXPECT_TRUE(pool.TryRun([&] { ++ran; }));
    EXPECT_TRUE(pool.TryRun([&] { ++ran; }));
    EXPECT_FALSE(pool.TryRun([&] { ran = 1000; }));
    pool.Run([&] { ++ran; });  // the next step of a call that is in is never refused
    gate.set_value();
  }
  EXPECT_EQ(ran, 4);
}

TEST(WorkPool, RunsOnAllItsThreads) {
  std::atomic<int> waiting = 0;
  std::promise<void> all;
  WorkPool pool(4, 10);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(pool.TryRun([&] {
      if (++waiting == 4) all.set_value();
      while (waiting < 4) std::this_thread::yield();
    }));
  }
  EXPECT_EQ(all.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace headcount::server
