// What a watcher is sent: order, completeness, resumption, progress, heartbeats and the end.

#include "server/watch/watch_cursor.h"

#include <gtest/gtest.h>

#include <random>

#include "common/base/errors.h"
#include "server/watch/resume_token.h"
#include "tests/server/watch/stored_job.h"
#include "tests/server/watch/watch_checker.h"

namespace headcount::server {
namespace {

class WatchCursorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    job_.jobs->SetListener([this](const std::string& name) { feed_.JobChanged(name); });
    subscription_ = feed_.Subscribe(job_.name, [] {});
  }

  std::unique_ptr<WatchCursor> Watch(const std::string& token = "", bool quiet = false) {
    v1::WatchJobRequest request;
    request.set_name(job_.name);
    request.set_resume_token(token);
    request.set_quiet(quiet);
    return std::make_unique<WatchCursor>(
        feed_, *job_.jobs, job_.clock,
        [this](const std::string& name) { return job_.jobs->GetJob(name); }, request);
  }

  // Everything until it waits or ends; the end is remembered in `ended_`.
  std::vector<v1::JobEvent> Drain(WatchCursor& cursor, int most = 1 << 20) {
    std::vector<v1::JobEvent> out;
    v1::JobEvent event;
    ended_ = false;
    while (static_cast<int>(out.size()) < most) {
      const auto step = cursor.Next(&event);
      status_ = step.status();
      if (!step.ok()) return out;
      ended_ = *step == WatchCursor::Step::kEnd;
      if (*step != WatchCursor::Step::kSend) return out;
      out.push_back(event);
    }
    return out;
  }

  void RunToEnd(int units) {
    job_.Begin();
    for (int i = 0; i < units; ++i) job_.StoreUnit();
    job_.Move(v1::Job::RUNNING);
    job_.Move(v1::Job::SUCCEEDED);
  }

  StoredJob job_;
  EventFeed feed_{*job_.jobs, 16};
  std::unique_ptr<EventFeed::Subscription> subscription_;
  bool ended_ = false;
  absl::Status status_;
};

TEST_F(WatchCursorTest, ASnapshotThenEverythingThenTheEnd) {
  RunToEnd(100);
  auto cursor = Watch();
  const std::vector<v1::JobEvent> events = Drain(*cursor);
  EXPECT_TRUE(ended_);
  EXPECT_EQ(CheckStream(events), "");
  EXPECT_EQ(CheckSame(DurableOf({events}), job_.Stored()), "");
  EXPECT_EQ(events[0].snapshot().state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(IsEnd(events.back()));
}

TEST_F(WatchCursorTest, LiveEventsFollowAsTheyAreStored) {
  auto cursor = Watch();
  std::vector<v1::JobEvent> events = Drain(*cursor);
  EXPECT_FALSE(ended_);
  job_.Begin();
  for (int i = 0; i < 5; ++i) {
    job_.StoreUnit();
    const std::vector<v1::JobEvent> more = Drain(*cursor);
    EXPECT_GE(more.size(), 1u);
    events.insert(events.end(), more.begin(), more.end());
  }
  job_.Move(v1::Job::FAILED);
  const std::vector<v1::JobEvent> more = Drain(*cursor);
  EXPECT_TRUE(ended_);
  events.insert(events.end(), more.begin(), more.end());
  EXPECT_EQ(CheckStream(events), "");
  EXPECT_EQ(CheckSame(DurableOf({events}), job_.Stored()), "");
}

// Breaks off anywhere, again and again: the pieces make the whole history, nothing twice.
TEST_F(WatchCursorTest, ResumesAnywhereWithoutLossOrRepetition) {
  RunToEnd(60);
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<v1::JobEvent>> streams;
    std::string token;
    do {
      auto cursor = Watch(token);
      streams.push_back(Drain(*cursor, 1 + static_cast<int>(random() % 20)));
      ASSERT_EQ(CheckStream(streams.back()), "");
      token = streams.back().back().resume_token();
    } while (!IsEnd(streams.back().back()));
    ASSERT_EQ(CheckSame(DurableOf(streams), job_.Stored()), "");
  }
}

TEST_F(WatchCursorTest, ResumedAfterTheEndItEndsAtOnce) {
  RunToEnd(3);
  auto cursor = Watch(Drain(*Watch()).back().resume_token());
  EXPECT_EQ(Drain(*cursor).size(), 1u);  // the snapshot
  EXPECT_TRUE(ended_);
}

TEST_F(WatchCursorTest, ProgressComesAtMostOnceASecond) {
  auto cursor = Watch();
  Drain(*cursor);
  job_.Begin();
  Drain(*cursor);
  job_.clock.Advance(std::chrono::seconds(5));
  int progress = 0;
  std::vector<v1::JobEvent> all = {Drain(*Watch(), 1)[0]};
  for (int tenth = 0; tenth < 40; ++tenth) {
    job_.StoreUnit();
    for (const v1::JobEvent& event : Drain(*cursor)) progress += event.has_progress() ? 1 : 0;
    job_.clock.Advance(std::chrono::milliseconds(100));
  }
  EXPECT_GE(progress, 3);
  EXPECT_LE(progress, 5);
}

TEST_F(WatchCursorTest, ProgressTellsTheCountsOfTheStore) {
  auto cursor = Watch();
  job_.Begin();
  job_.StoreUnit();
  Drain(*cursor);
  job_.clock.Advance(std::chrono::seconds(1));
  const std::vector<v1::JobEvent> events = Drain(*cursor);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].progress().done_units(), 1);
  EXPECT_EQ(events[0].sequence(), *job_.jobs->LastSequence(job_.name));
}

TEST_F(WatchCursorTest, SilenceIsBrokenByAHeartbeat) {
  auto cursor = Watch();
  Drain(*cursor);
  job_.clock.Advance(std::chrono::seconds(14));
  EXPECT_TRUE(Drain(*cursor).empty());
  job_.clock.Advance(std::chrono::seconds(1));
  std::vector<v1::JobEvent> beat = Drain(*cursor);
  ASSERT_EQ(beat.size(), 1u);
  EXPECT_TRUE(beat[0].has_progress());
  EXPECT_EQ(beat[0].sequence(), *job_.jobs->LastSequence(job_.name));
  EXPECT_TRUE(Drain(*cursor).empty());

  auto quiet = Watch("", /*quiet=*/true);
  Drain(*quiet);
  job_.clock.Advance(std::chrono::seconds(15));
  beat = Drain(*quiet);
  ASSERT_EQ(beat.size(), 1u);
  EXPECT_EQ(beat[0].event_case(), v1::JobEvent::EVENT_NOT_SET);
}

TEST_F(WatchCursorTest, QuietLeavesOutUnitsAndProgressButMissesNothingElse) {
  RunToEnd(50);
  const std::vector<v1::JobEvent> events = Drain(*Watch("", /*quiet=*/true));
  EXPECT_EQ(CheckStream(events, /*quiet=*/true), "");
  std::vector<v1::JobEvent> expected;
  for (const v1::JobEvent& event : job_.Stored()) {
    if (!event.has_unit_stored()) expected.push_back(event);
  }
  EXPECT_EQ(CheckSame(DurableOf({events}), expected), "");
  EXPECT_TRUE(ended_);
}

TEST_F(WatchCursorTest, AJobThatIsDeletedEndsItsWatchersWithNotFound) {
  auto cursor = Watch();
  job_.Begin();
  Drain(*cursor);
  job_.Move(v1::Job::CANCELLING);
  Drain(*cursor);
  job_.Move(v1::Job::CANCELLED);
  ASSERT_TRUE(job_.jobs->DeleteJob(job_.name, "").ok());
  feed_.JobDeleted(job_.name);
  Drain(*cursor);
  EXPECT_EQ(status_.code(), absl::StatusCode::kNotFound);
}

TEST_F(WatchCursorTest, TokensOfOtherJobsAndUnknownJobsAreRefused) {
  Drain(*Watch(MakeResumeToken("uid-of-another", 1)));
  EXPECT_EQ(status_.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ReasonOf(status_), "RESUME_TOKEN_EXPIRED");
  Drain(*Watch(MakeResumeToken("uid-of-one", 1000)));
  EXPECT_EQ(status_.code(), absl::StatusCode::kOutOfRange);
  Drain(*Watch("garbage"));
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
  job_.name = "projects/default/jobs/none";
  Drain(*Watch());
  EXPECT_EQ(status_.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headcount::server
