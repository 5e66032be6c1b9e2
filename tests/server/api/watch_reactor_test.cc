// The one thing that a whole server cannot show in time: a client that does not read for a minute
// is cut off, on a fake clock, and told so when it reads at last.

#include "server/api/watch_reactor.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "common/base/errors.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "headcount/v1/job_service.grpc.pb.h"
#include "tests/server/watch/stored_job.h"
#include "tests/server/watch/watch_checker.h"

namespace headcount::server {
namespace {

class Counted final : public CallStats {
 public:
  void Handled(const char* method, absl::StatusCode code) override {
    std::lock_guard lock(mutex_);
    ++counts_[code];
  }
  int Of(absl::StatusCode code) {
    std::lock_guard lock(mutex_);
    return counts_[code];
  }

 private:
  std::mutex mutex_;
  std::map<absl::StatusCode, int> counts_;
};

class WatchReactorTest : public ::testing::Test {
 protected:
  class Service final : public v1::JobService::CallbackService {
   public:
    explicit Service(WatchReactorTest& test) : test_(test) {}
    grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext*,
                                                     const v1::WatchJobRequest* request) override {
      auto job = [this](const std::string& name) { return test_.job_.jobs->GetJob(name); };
      return new WatchReactor(
          {test_.feed_, test_.job_.clock, test_.pool_, test_.stats_, [] { return false; }},
          request->name(),
          std::make_unique<WatchCursor>(test_.feed_, *test_.job_.jobs, test_.job_.clock, job,
                                        *request));
    }

   private:
    WatchReactorTest& test_;
  };

  void SetUp() override {
    job_.jobs->SetListener([this](const std::string& name) { feed_.JobChanged(name); });
    grpc::ServerBuilder builder;
    rpc::ConfigureServer(&builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::JobService::NewStub(rpc::MakeChannel("127.0.0.1:" + std::to_string(port)));
  }

  // 100 events of 100 kB: far more than any window lets through unread.
  void StoreLargeEvents() {
    v1::JobEvent event;
    event.mutable_curve_point()->set_curve(std::string(100'000, 'c'));
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(job_.jobs->AppendEvent(job_.name, event, "").ok());
  }

  template <typename Condition>
  static bool Eventually(Condition condition) {
    const auto deadline = Clock::System().Monotonic() + std::chrono::seconds(60);
    while (!condition()) {
      if (Clock::System().Monotonic() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  StoredJob job_;
  EventFeed feed_{*job_.jobs};
  Counted stats_;
  WorkPool pool_{2, 100};
  Service service_{*this};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(WatchReactorTest, AClientThatDoesNotReadForAMinuteIsCutOffAndCanResume) {
  StoreLargeEvents();
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_name(job_.name);
  auto reader = stub_->WatchJob(&context, request);
  ASSERT_TRUE(Eventually([&] { return feed_.size() == 1; }));
  // A minute at a time, until the outstanding message is that old.
  ASSERT_TRUE(Eventually([&] {
    job_.clock.Advance(std::chrono::seconds(61));
    feed_.Tick();
    return stats_.Of(absl::StatusCode::kResourceExhausted) == 1;
  }));

  std::vector<v1::JobEvent> first;
  v1::JobEvent event;
  while (reader->Read(&event)) first.push_back(event);
  const absl::Status status = rpc::FromGrpc(reader->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ReasonOf(status), "WATCHER_TOO_SLOW");
  EXPECT_EQ(CheckStream(first), "");
  EXPECT_LT(first.size(), 101u);
  EXPECT_TRUE(Eventually([&] { return feed_.size() == 0; }));

  grpc::ClientContext again;
  request.set_resume_token(first.back().resume_token());
  auto rest = stub_->WatchJob(&again, request);
  std::vector<v1::JobEvent> second;
  const int64_t last = *job_.jobs->LastSequence(job_.name);
  while (event.sequence() < last && rest->Read(&event)) second.push_back(event);
  again.TryCancel();
  rest->Finish();
  EXPECT_EQ(CheckStream(second), "");
  EXPECT_EQ(CheckSame(DurableOf({first, second}), job_.Stored()), "");
}

TEST_F(WatchReactorTest, AClientThatGoesAwayUnreadLeavesNothing) {
  StoreLargeEvents();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_name(job_.name);
    auto reader = stub_->WatchJob(&context, request);
    ASSERT_TRUE(Eventually([&] { return feed_.size() > 0; }));
    context.TryCancel();
    v1::JobEvent event;
    while (reader->Read(&event)) continue;
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    ASSERT_TRUE(Eventually([&] { return feed_.size() == 0; }));
  }
  EXPECT_EQ(stats_.Of(absl::StatusCode::kCancelled), 20);
}

}  // namespace
}  // namespace headcount::server
