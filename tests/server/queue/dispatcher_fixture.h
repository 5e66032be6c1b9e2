// A server without threads or time for the dispatcher's tests, and what they ask it.

#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/queue/fake_worker.h"

namespace headcount::queue {

// Each job is computed: these tests are about who does it.
inline constexpr char kScore[] =
    "score { workload { model: 'tiny' task { task: 'pairs' } fresh: true } }";

class DispatcherFixture : public testing::Test {
 protected:
  SyncOutcome Sync(const v1::SynchronizeRequest& request) {
    auto outcome = server_.dispatcher->Synchronize(request);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(SyncOutcome{});
  }
  SyncOutcome Recheck(const v1::SynchronizeRequest& request) {
    auto outcome = server_.dispatcher->Recheck(request);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(SyncOutcome{});
  }

  // A job whose prepare stage is done; score has three units of four samples.
  std::string Prepared(const std::string& id, const std::string& spec = kScore) {
    const std::string job = server_.Create(id, spec);
    const auto known = server_.jobs->GetStage(job, store::Stage::kScore);
    if (known.ok()) return job;  // a job before it has left its manifest
    FakeWorker worker(server_, "preparer", 6);
    worker.Call(worker.Request());
    EXPECT_TRUE(worker.Report(0).ok());
    EXPECT_TRUE(server_.dispatcher->WorkerDied("preparer", "", "").ok());
    const v1::Job prepared = server_.Get(job);
    EXPECT_TRUE(server_.jobs->GetStage(job, store::Stage::kScore).ok()) << prepared.DebugString();
    return job;
  }

  std::vector<v1::TaskLost> Lost(const std::string& job) {
    std::vector<v1::TaskLost> lost;
    for (const v1::JobEvent& event : server_.Events(job)) {
      if (event.has_task_lost()) lost.push_back(event.task_lost());
    }
    return lost;
  }

  std::string StateOf(const std::string& worker) {
    for (const v1::WorkerInfo& info : server_.dispatcher->Workers()) {
      if (info.worker() == worker) return info.state();
    }
    return "unknown";
  }

  TestServer server_;
};

}  // namespace headcount::queue
