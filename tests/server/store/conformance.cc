// See conformance.h.

#include "tests/server/store/conformance.h"

#include "absl/strings/str_cat.h"

namespace headcount::store {

std::string Refusal(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), " ", ReasonOf(status).value_or("-"));
}

void JobStoreConformance::Open() {
  store_ = GetParam().open(folder_.path(), clock_);
  ASSERT_NE(store_, nullptr);
}

void JobStoreConformance::Reopen() {
  store_.reset();
  Open();
}

NewJob JobStoreConformance::Request(const std::string& id, const std::string& owner) {
  NewJob job;
  job.job.set_name("projects/default/jobs/" + id);
  job.job.set_uid("uid-" + id);
  job.job.set_owner(owner);
  job.job.mutable_sweep()->mutable_workload()->set_model("m");
  return job;
}

v1::Job JobStoreConformance::Create(const std::string& id, const std::string& owner) {
  auto created = store_->CreateJob(Request(id, owner), 1000);
  EXPECT_TRUE(created.ok()) << created.status();
  return created.ok() ? created->job : v1::Job();
}

absl::Status JobStoreConformance::Plan(const std::string& job, Stage stage, int64_t units,
                                       const std::string& manifest) {
  StageRecord record{.job = job, .stage = stage, .manifest_digest = manifest, .units = units};
  record.rows = 2 * units;
  for (int64_t i = 0; i < units; ++i) {
    v1::SampleBlock& block = *record.plan.add_sample_blocks();
    block.set_first_sample(2 * i);
    block.set_samples(2);
  }
  return store_->AddStage(record);
}

std::string JobStoreConformance::CreateWithUnits(const std::string& id, int64_t units,
                                                 Stage stage) {
  const std::string name = Create(id).name();
  EXPECT_EQ(Plan(name, stage, units), absl::OkStatus());
  return name;
}

absl::StatusOr<Lease> JobStoreConformance::Take(const std::string& job, int64_t first,
                                                int64_t count, const std::string& worker,
                                                Stage stage) {
  return store_->LeaseTask(
      {.job = job, .stage = stage, .first_unit = first, .unit_count = count, .worker = worker},
      kTerm);
}

absl::StatusOr<StoredChunk> JobStoreConformance::Store(const Lease& lease, int64_t unit,
                                                       const std::string& digest) {
  v1::UnitCounts counts;
  counts.set_rows(2);
  v1::RuleCounts& rule = *counts.add_rules();
  rule.set_rule(-1);
  rule.set_documents(1);
  rule.set_correct(unit % 2);
  return store_->StoreChunk(lease.task, lease.attempt, unit,
                            digest.empty() ? absl::StrCat("digest-", unit) : digest, 100 + unit,
                            counts);
}

absl::StatusOr<EndedLease> JobStoreConformance::End(const Lease& lease, LeaseEnd end) {
  return store_->EndLease(lease.task, lease.attempt, end, "WORKER_DIED", "signal 9");
}

absl::StatusOr<v1::Job> JobStoreConformance::Move(const std::string& job,
                                                  std::vector<v1::Job::State> from,
                                                  v1::Job::State to) {
  return store_->UpdateState({.job = job, .from = std::move(from), .to = to, .reason = "TEST"});
}

v1::Job JobStoreConformance::Get(const std::string& job) {
  auto found = store_->GetJob(job);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : v1::Job();
}

std::vector<v1::JobEvent> JobStoreConformance::Events(const std::string& job) {
  auto events = store_->ReadEvents(job, 0, 1'000'000);
  EXPECT_TRUE(events.ok()) << events.status();
  return events.ok() ? *std::move(events) : std::vector<v1::JobEvent>();
}

std::vector<std::pair<int64_t, int64_t>> JobStoreConformance::FreeUnits(const std::string& job,
                                                                        Stage stage) {
  auto view = store_->View();
  EXPECT_TRUE(view.ok()) << view.status();
  std::vector<std::pair<int64_t, int64_t>> free;
  for (const RunnableStage& runnable : view->runnable) {
    if (runnable.job != job || runnable.stage != stage) continue;
    for (const UnitInterval& units : runnable.free_units)
      free.push_back({units.first, units.count});
  }
  return free;
}

void JobStoreConformance::CheckConsistent(const std::string& name) {
  const std::vector<v1::JobEvent> events = Events(name);
  int64_t stored_events = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i) + 1);
    stored_events += events[i].has_unit_stored();
  }
  EXPECT_EQ(*store_->LastSequence(name), static_cast<int64_t>(events.size()));

  const v1::Job job = Get(name);
  const bool runs = job.state() == v1::Job::QUEUED || job.state() == v1::Job::STARTING ||
                    job.state() == v1::Job::RUNNING;
  auto stages = store_->ListStages(name);
  ASSERT_TRUE(stages.ok()) << stages.status();
  auto leases = store_->ListLeases(name);
  ASSERT_TRUE(leases.ok()) << leases.status();
  int64_t done = 0;
  for (const StageRecord& stage : *stages) {
    std::vector<int> times(stage.units, 0);
    auto chunks = store_->ListChunks(name, stage.stage, 0, 1'000'000);
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    for (const ChunkRecord& chunk : *chunks) ++times[chunk.unit];
    EXPECT_EQ(stage.done_units, static_cast<int64_t>(chunks->size()));
    EXPECT_EQ(stage.done_rows, 2 * stage.done_units);
    for (const Lease& lease : *leases) {
      if (lease.stage != stage.stage) continue;
      int64_t stored = 0;
      for (int64_t u = lease.first_unit; u < lease.first_unit + lease.unit_count; ++u) {
        if (times[u] == 0)
          times[u] = 1;
        else
          ++stored;
      }
      EXPECT_EQ(lease.stored_units, stored) << lease.task;
    }
    for (const auto& [first, count] : FreeUnits(name, stage.stage)) {
      for (int64_t u = first; u < first + count; ++u) ++times[u];
    }
    if (runs) {
      EXPECT_THAT(times, ::testing::Each(1));
    }
    done += stage.done_units;
  }
  EXPECT_EQ(stored_events + job.progress().reused_units(), done);
  EXPECT_EQ(job.progress().done_units(), done);
}

}  // namespace headcount::store
