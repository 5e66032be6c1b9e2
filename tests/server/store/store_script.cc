// See store_script.h.

#include "tests/server/store/store_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace headcount::store {
namespace {

constexpr Clock::Duration kTerm = std::chrono::seconds(30);

NewJob JobNamed(const std::string& name) {
  NewJob job;
  job.job.set_name(name);
  job.job.set_owner("ann");
  (*job.job.mutable_labels())["label"] = "value";
  job.job.mutable_sweep()->mutable_workload()->set_model("m");
  // Long enough to need pages of its own.
  for (int i = 0; i < 300; ++i) job.job.mutable_sweep()->add_scores("first_token_weight");
  job.request_id = "request for " + name;
  job.body_digest = "body";
  return job;
}

}  // namespace

bool StoreScript::Do(bool retry, const std::function<absl::Status()>& call,
                     const std::function<bool(const absl::Status&)>& done_before) {
  absl::Status status = call();
  if (status.ok()) return true;
  failures_.push_back(status);
  if (!retry) return false;
  status = call();
  EXPECT_TRUE(status.ok() || done_before(status)) << status;
  return status.ok() || done_before(status);
}

void StoreScript::Run(JobStore& store, bool retry) {
  for (int j = 0; j < kJobs; ++j) {
    const std::string name = absl::StrCat("projects/default/jobs/j", j);
    RunJob(store, name, jobs_[name], retry);
  }
}

void StoreScript::RunJob(JobStore& store, const std::string& name, Acknowledged& known,
                         bool retry) {
  const auto never = [](const absl::Status&) { return false; };
  known.created = Do(retry, [&] { return store.CreateJob(JobNamed(name), 100).status(); }, never);
  if (!known.created) return;
  StageRecord stage{.job = name, .stage = Stage::kScore, .manifest_digest = "m", .units = kUnits};
  stage.rows = kUnits;
  for (int i = 0; i < 200; ++i) stage.plan.add_sample_blocks()->set_samples(1);
  known.planned = Do(retry, [&] { return store.AddStage(stage); }, absl::IsAlreadyExists);
  if (!known.planned) return;
  v1::JobEvent event;
  event.mutable_curve_point()->set_curve("entropy");
  known.event = Do(retry, [&] { return store.AppendEvent(name, event, "once").status(); }, never);
  if (!known.event) return;
  for (int64_t first = 0; first < kUnits; first += 2) {
    absl::StatusOr<Lease> lease;
    const bool leased = Do(
        retry,
        [&] {
          lease = store.LeaseTask({name, Stage::kScore, first, 2, "w"}, kTerm);
          return lease.status();
        },
        absl::IsAborted);
    if (!leased) return;
    if (!lease.ok()) {  // the lost answer: the view knows the lease
      auto leases = store.ListLeases(name);
      ASSERT_TRUE(leases.ok()) << leases.status();
      ASSERT_EQ(leases->size(), 1u);
      lease = leases->front();
    }
    known.attempt = lease->attempt;
    for (int64_t unit = first; unit < first + 2; ++unit) {
      v1::UnitCounts counts;
      counts.set_rows(1);
      if (!Do(
              retry,
              [&] {
                return store
                    .StoreChunk(lease->task, lease->attempt, unit, absl::StrCat("d", unit), 7,
                                counts)
                    .status();
              },
              never)) {
        return;
      }
      known.units.insert(unit);
    }
  }
  known.succeeded = Do(
      retry,
      [&] {
        return store
            .UpdateState({.job = name, .from = {v1::Job::STARTING}, .to = v1::Job::SUCCEEDED})
            .status();
      },
      absl::IsFailedPrecondition);
}

void StoreScript::ExpectKept(JobStore& store) const {
  for (const auto& [name, known] : jobs_) {
    SCOPED_TRACE(name);
    auto job = store.GetJob(name);
    if (!job.ok()) {
      EXPECT_TRUE(absl::IsNotFound(job.status())) << job.status();
      EXPECT_FALSE(known.created);
      // Not there at all: the request can still be made.
      auto created = store.CreateJob(JobNamed(name), 100);
      EXPECT_TRUE(created.ok() && created->created) << created.status();
      continue;
    }
    EXPECT_EQ(job->sweep().scores_size(), 300);
    EXPECT_EQ(job->labels().at("label"), "value");
    EXPECT_GE(job->attempt(), known.attempt);
    if (known.succeeded) {
      EXPECT_EQ(job->state(), v1::Job::SUCCEEDED);
    }
    auto again = store.CreateJob(JobNamed(name), 100);
    EXPECT_TRUE(again.ok() && !again->created) << again.status();

    // One event for each change, no other, densely numbered.
    auto events = store.ReadEvents(name, 0, 1000);
    ASSERT_TRUE(events.ok()) << events.status();
    int planned = 0, stored = 0, points = 0, states = 0;
    for (size_t i = 0; i < events->size(); ++i) {
      const v1::JobEvent& event = (*events)[i];
      EXPECT_EQ(event.sequence(), static_cast<int64_t>(i) + 1);
      planned += event.has_stage_planned();
      stored += event.has_unit_stored();
      points += event.has_curve_point();
      states += event.has_state_changed();
    }
    auto stages = store.ListStages(name);
    ASSERT_TRUE(stages.ok()) << stages.status();
    EXPECT_EQ(planned, static_cast<int>(stages->size()));
    EXPECT_GE(planned, known.planned ? 1 : 0);
    EXPECT_LE(points, 1);
    EXPECT_GE(points, known.event ? 1 : 0);
    EXPECT_EQ(states, 1 + (job->attempt() > 0) + (job->state() == v1::Job::SUCCEEDED));
    if (stages->empty()) continue;

    EXPECT_EQ(stages->front().plan.sample_blocks_size(), 200);
    auto chunks = store.ListChunks(name, Stage::kScore, 0, 100);
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    std::set<int64_t> units;
    for (const ChunkRecord& chunk : *chunks) {
      EXPECT_EQ(chunk.digest, absl::StrCat("d", chunk.unit));
      units.insert(chunk.unit);
    }
    EXPECT_THAT(units, ::testing::IsSupersetOf(known.units));
    EXPECT_EQ(stored, static_cast<int>(units.size()));
    EXPECT_EQ(stages->front().done_units, static_cast<int64_t>(units.size()));
    EXPECT_EQ(stages->front().done_rows, static_cast<int64_t>(units.size()));
  }
}

void StoreScript::ExpectWhole(JobStore& store) const {
  for (const auto& [name, known] : jobs_) {
    EXPECT_TRUE(known.succeeded) << name;
    auto job = store.GetJob(name);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state(), v1::Job::SUCCEEDED);
    EXPECT_EQ(job->progress().done_units(), kUnits);
    EXPECT_EQ(job->attempt(), kUnits / 2);
  }
}

}  // namespace headcount::store
