// The shared cache of events and the waking of watchers.

#include "server/watch/event_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/server/watch/stored_job.h"
#include "tests/server/watch/watch_checker.h"

namespace headcount::server {
namespace {

std::vector<v1::JobEvent> ReadAll(EventFeed& feed, const std::string& job, int64_t after,
                                  int limit) {
  std::vector<v1::JobEvent> all;
  while (true) {
    const auto read = feed.Read(job, after, limit);
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok() || read->empty()) return all;
    EXPECT_LE(static_cast<int>(read->size()), limit);
    after = read->back().sequence();
    all.insert(all.end(), read->begin(), read->end());
  }
}

TEST(EventFeed, ReadsTheSameWithAndWithoutACacheFromEveryPosition) {
  StoredJob job;
  EventFeed feed(*job.jobs, /*cached=*/8);
  job.jobs->SetListener([&](const std::string& name) { feed.JobChanged(name); });
  auto subscription = feed.Subscribe(job.name, [] {});
  job.Begin();
  for (int i = 0; i < 40; ++i) {
    job.StoreUnit();
    if (i % 3 == 0) ReadAll(feed, job.name, i, 4);  // fills the cache in odd places
  }
  const std::vector<v1::JobEvent> stored = job.Stored();
  for (int64_t after = 0; after <= static_cast<int64_t>(stored.size()); ++after) {
    for (const int limit : {1, 3, 64}) {
      const std::vector<v1::JobEvent> rest(stored.begin() + after, stored.end());
      EXPECT_EQ(CheckSame(ReadAll(feed, job.name, after, limit), rest), "") << after;
    }
  }
}

TEST(EventFeed, AChangeWakesTheWatchersOfThatJobAlone) {
  StoredJob job;
  const std::string other = job.Create("other");
  EventFeed feed(*job.jobs);
  job.jobs->SetListener([&](const std::string& name) { feed.JobChanged(name); });
  int mine = 0;
  int others = 0;
  auto first = feed.Subscribe(job.name, [&] { ++mine; });
  auto second = feed.Subscribe(other, [&] { ++others; });
  EXPECT_EQ(feed.size(), 2);
  job.Begin();
  EXPECT_GT(mine, 0);
  EXPECT_EQ(others, 0);
  feed.Tick();
  EXPECT_EQ(others, 1);
}

TEST(EventFeed, AfterTheEndOfASubscriptionNothingIsWoken) {
  StoredJob job;
  EventFeed feed(*job.jobs);
  int woken = 0;
  auto subscription = feed.Subscribe(job.name, [&] { ++woken; });
  subscription.reset();
  feed.JobChanged(job.name);
  feed.Tick();
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(feed.size(), 0);
}

TEST(EventFeed, ADeletedJobIsNotFoundEvenFromTheCache) {
  StoredJob job;
  EventFeed feed(*job.jobs);
  auto subscription = feed.Subscribe(job.name, [] {});
  job.Begin();
  ReadAll(feed, job.name, 0, 64);
  job.Move(v1::Job::CANCELLING);
  job.Move(v1::Job::CANCELLED);
  ASSERT_TRUE(job.jobs->DeleteJob(job.name, "").ok());
  feed.JobDeleted(job.name);
  EXPECT_EQ(feed.Read(job.name, 0, 64).status().code(), absl::StatusCode::kNotFound);
}

// Watchers come and go while events are stored: nobody is woken after its end, nothing leaks.
TEST(EventFeed, WatchersComeAndGoWhileEventsAreStored) {
  StoredJob job;
  EventFeed feed(*job.jobs, 16);
  job.jobs->SetListener([&](const std::string& name) { feed.JobChanged(name); });
  job.Begin();
  std::atomic<bool> done = false;
  std::vector<std::thread> watchers;
  for (int w = 0; w < 3; ++w) {
    watchers.emplace_back([&] {
      while (!done) {
        auto alive = std::make_unique<std::atomic<int>>(0);
        auto subscription = feed.Subscribe(job.name, [&alive] { ++*alive; });
        const auto read = feed.Read(job.name, 0, 16);
        EXPECT_TRUE(read.ok());
        subscription.reset();
        alive.reset();  // a late wake would use freed memory
      }
    });
  }
  for (int i = 0; i < 200; ++i) job.StoreUnit();
  done = true;
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(feed.size(), 0);
}

}  // namespace
}  // namespace headcount::server
