// A job in an in-memory store that can be moved through its life in single steps, for tests of
// watching.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "server/store/sqlite_job_store.h"

namespace headcount::server {

class StoredJob {
 public:
  explicit StoredJob(const std::string& id = "one", int64_t units = 1000) : units_(units) {
    auto opened = store::SqliteJobStore::Open(":memory:", clock);
    EXPECT_TRUE(opened.ok()) << opened.status();
    jobs = *std::move(opened);
    name = Create(id);
  }

  std::string Create(const std::string& id) {
    store::NewJob job;
    job.job.set_name("projects/default/jobs/" + id);
    job.job.set_uid("uid-of-" + id);
    job.job.set_owner("ann");
    job.job.mutable_score()->mutable_workload()->set_model("tiny");
    const auto created = jobs->CreateJob(job, 1000);
    EXPECT_TRUE(created.ok()) << created.status();
    return job.job.name();
  }

  // QUEUED -> STARTING, one lease over all units.
  void Begin() {
    store::StageRecord stage;
    stage.job = name;
    stage.stage = store::Stage::kScore;
    stage.units = units_;
    stage.rows = units_ * 2;
    stage.plan.add_sample_blocks()->set_samples(2);
    ASSERT_TRUE(jobs->AddStage(stage).ok());
    const auto lease = jobs->LeaseTask({name, store::Stage::kScore, 0, units_, "worker"},
                                       std::chrono::seconds(30));
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = *lease;
  }

  void StoreUnit() {
    v1::UnitCounts counts;
    counts.set_rows(2);
    const auto stored =
        jobs->StoreChunk(lease_.task, lease_.attempt, next_++, std::string(64, 'a'), 10, counts);
    ASSERT_TRUE(stored.ok()) << stored.status();
  }

  void Move(v1::Job::State to) {
    const auto job = jobs->GetJob(name);
    ASSERT_TRUE(job.ok());
    const auto moved =
        jobs->UpdateState({.job = name, .from = {job->state()}, .to = to, .reason = "TEST"});
    ASSERT_TRUE(moved.ok()) << moved.status();
  }

  std::vector<v1::JobEvent> Stored() { return *jobs->ReadEvents(name, 0, 1'000'000); }

  FakeClock clock;
  std::unique_ptr<store::JobStore> jobs;
  std::string name;

 private:
  const int64_t units_;
  store::Lease lease_;
  int64_t next_ = 0;
};

}  // namespace headcount::server
