// WatchJob over the wire: completeness against the store, resumption, many watchers, deletion, a
// server that stops, a client that does not read.

#include <random>

#include "tests/server/api/harness.h"
#include "tests/server/api/scripted_worker.h"
#include "tests/server/watch/watch_checker.h"

namespace headcount::server {
namespace {

class WatchTest : public ApiTest {
 protected:
  std::vector<v1::JobEvent> Stored(const std::string& name) {
    return *server_->jobs().ReadEvents(name, 0, 1 << 20);
  }
};

TEST_F(WatchTest, AWholeSweepArrivesLiveAndInOrder) {
  const std::string name = Create(SweepJob())->name();
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  absl::Status status;
  const std::vector<v1::JobEvent> events = Watch(name, "", &status);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(CheckStream(events), "");
  EXPECT_EQ(CheckSame(DurableOf({events}), Stored(name)), "");
  EXPECT_EQ(events.back().state_changed().to(), v1::Job::SUCCEEDED);
  int stages = 0;
  int points = 0;
  for (const v1::JobEvent& event : events) {
    stages += event.has_stage_planned() ? 1 : 0;
    points += event.curve_point().final() ? 1 : 0;
  }
  EXPECT_EQ(stages, 3);
  EXPECT_GE(points, 4);  // 2 scores x 2 fractions
}

TEST_F(WatchTest, FiftyWatchersSeeTheSame) {
  const std::string name = Create(SweepJob())->name();
  std::vector<std::thread> watchers;
  std::vector<std::vector<v1::JobEvent>> seen(50);
  for (auto& events : seen) {
    watchers.emplace_back([&] {
      absl::Status status;
      events = Watch(name, "", &status);
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  for (std::thread& watcher : watchers) watcher.join();
  const std::vector<v1::JobEvent> stored = Stored(name);
  for (const auto& events : seen) {
    ASSERT_EQ(CheckStream(events), "");
    ASSERT_EQ(CheckSame(DurableOf({events}), stored), "");
  }
}

TEST_F(WatchTest, BrokenOffAndResumedAnywhereNothingIsLostOrRepeated) {
  const std::string name = Create(SweepJob())->name();
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  std::mt19937 random(3);
  std::vector<std::vector<v1::JobEvent>> streams;
  std::string token;
  do {
    absl::Status status;
    streams.push_back(Watch(name, token, &status, 1 + random() % 6));
    ASSERT_FALSE(streams.back().empty()) << status;
    ASSERT_EQ(CheckStream(streams.back()), "");
    token = streams.back().back().resume_token();
  } while (!IsEnd(streams.back().back()));
  EXPECT_EQ(CheckSame(DurableOf(streams), Stored(name)), "");
}

TEST_F(WatchTest, WatchersThatComeAndGoLeaveNothingBehind) {
  const std::string name = Create(ScoreJob())->name();
  for (int i = 0; i < 200; ++i) {
    absl::Status status;
    EXPECT_EQ(Watch(name, "", &status, 1).size(), 1u);
  }
  // The job's own counter is the metric headcount_watch_streams.
  EXPECT_TRUE(Eventually([&] { return server_->watch_streams() == 0; }));
}

TEST_F(WatchTest, ADeletedJobEndsItsWatchersAndTheirTokens) {
  const std::string name = Create(ScoreJob())->name();
  absl::Status status;
  const std::string token = Watch(name, "", &status, 2).back().resume_token();
  v1::CancelJobRequest cancel;
  cancel.set_name(name);
  v1::Job job;
  ASSERT_TRUE(Unary(*jobs_, &v1::JobService::Stub::CancelJob, cancel, &job).ok());
  ASSERT_TRUE(Eventually([&] { return Get(name).state() == v1::Job::CANCELLED; }));
  v1::DeleteJobRequest remove;
  remove.set_name(name);
  v1::DeleteJobResponse response;
  ASSERT_TRUE(Unary(*jobs_, &v1::JobService::Stub::DeleteJob, remove, &response).ok());
  Watch(name, token, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

TEST_F(WatchTest, TokensThatFitNoEventAreRefused) {
  const std::string name = Create(ScoreJob())->name();
  const std::string other = Create(ScoreJob())->name();
  absl::Status status;
  const std::string token = Watch(other, "", &status, 2).back().resume_token();
  Watch(name, token, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ReasonOf(status), "RESUME_TOKEN_EXPIRED");
  Watch(name, "rubbish", &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "resume_token");
}

TEST_F(WatchTest, AServerThatStopsEndsStreamsWithUnavailable) {
  const std::string name = Create(ScoreJob())->name();
  std::vector<std::thread> watchers;
  std::atomic<int> reading = 0;
  std::atomic<int> unavailable = 0;
  for (int i = 0; i < 20; ++i) {
    watchers.emplace_back([&] {
      Call call;
      v1::WatchJobRequest request;
      request.set_name(name);
      auto reader = jobs_->WatchJob(&call.context, request);
      v1::JobEvent event;
      if (reader->Read(&event)) ++reading;
      while (reader->Read(&event)) continue;
      const absl::Status status = Checked(reader->Finish());
      if (status.code() == absl::StatusCode::kUnavailable) ++unavailable;
    });
  }
  ASSERT_TRUE(Eventually([&] { return reading == 20; }));
  const auto began = Clock::System().Monotonic();
  server_->Stop(std::chrono::seconds(20));
  EXPECT_LT(Clock::System().Monotonic() - began, std::chrono::seconds(20));
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(unavailable, 20);
}

// A client that opens a stream and never reads: its stream costs one message, and everybody else is
// served. When it reads at last it gets all of it.
TEST_F(WatchTest, AClientThatDoesNotReadHoldsUpNobody) {
  const std::string name = Create(SweepJob())->name();
  Call lazy;
  v1::WatchJobRequest request;
  request.set_name(name);
  auto reader = jobs_->WatchJob(&lazy.context, request);
  ASSERT_TRUE(Eventually([&] { return server_->watch_streams() == 1; }));
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  absl::Status status;
  EXPECT_EQ(CheckStream(Watch(name, "", &status)), "");
  std::vector<v1::JobEvent> events;
  v1::JobEvent event;
  while (reader->Read(&event)) events.push_back(event);
  EXPECT_TRUE(Checked(reader->Finish()).ok());
  EXPECT_EQ(CheckSame(DurableOf({events}), Stored(name)), "");
}

}  // namespace
}  // namespace headcount::server
