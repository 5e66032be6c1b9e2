// Stages, chunks, manifests, what collection must keep. See conformance.h.

#include "absl/strings/str_cat.h"
#include "tests/server/store/conformance.h"

namespace headcount::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_P(JobStoreConformance, AStageIsStoredAsPlanned) {
  const std::string job = Create("a").name();
  StageRecord stage{.job = job, .stage = Stage::kAblate, .manifest_digest = "d1", .units = 6};
  stage.rows = 40;
  stage.done_units = 3;  // not the caller's to say
  stage.plan.set_rules_per_unit(4);
  stage.plan.set_samples_per_unit(32);
  stage.plan.set_documents(9);
  for (int samples : {5, 3}) stage.plan.add_sample_blocks()->set_samples(samples);
  for (int i = 0; i < 5; ++i) stage.plan.add_rules();
  ASSERT_EQ(store_->AddStage(stage), absl::OkStatus());
  auto read = store_->GetStage(job, Stage::kAblate);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job, job);
  EXPECT_EQ(read->stage, Stage::kAblate);
  EXPECT_EQ(read->manifest_digest, "d1");
  EXPECT_EQ(read->units, 6);
  EXPECT_EQ(read->rows, 40);
  EXPECT_EQ(read->done_units, 0);
  EXPECT_EQ(read->done_rows, 0);
  EXPECT_EQ(read->plan.SerializeAsString(), stage.plan.SerializeAsString());
  const v1::StagePlanned event = Events(job).back().stage_planned();
  EXPECT_EQ(event.stage(), "ablate");
  EXPECT_EQ(event.units(), 6);
  EXPECT_EQ(event.samples(), 8);
  EXPECT_EQ(event.rules(), 5);
  EXPECT_EQ(Get(job).progress().total_units(), 6);
  EXPECT_EQ(Get(job).progress().total_rows(), 40);
}

TEST_P(JobStoreConformance, AStageIsAddedOnceAndToJobsThatCanRun) {
  const std::string job = Create("a").name();
  EXPECT_EQ(Refusal(store_->GetStage(job, Stage::kScore).status()), "NOT_FOUND STAGE_NOT_FOUND");
  EXPECT_THAT(*store_->ListStages(job), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(Plan(job, Stage::kPrepare, 0)));
  ASSERT_EQ(Plan(job, Stage::kScore, 3), absl::OkStatus());
  EXPECT_EQ(Refusal(Plan(job, Stage::kScore, 5)), "ALREADY_EXISTS STAGE_EXISTS");
  EXPECT_EQ(store_->GetStage(job, Stage::kScore)->units, 3);
  EXPECT_EQ(Events(job).size(), 2u);
  for (v1::Job::State state : {v1::Job::PAUSED, v1::Job::CANCELLING, v1::Job::CANCELLED}) {
    ASSERT_TRUE(Move(job, {v1::Job::QUEUED, v1::Job::PAUSED, v1::Job::CANCELLING}, state).ok());
    EXPECT_EQ(Refusal(Plan(job, Stage::kAblate, 1)), "FAILED_PRECONDITION JOB_STATE");
  }
  EXPECT_EQ(store_->ListStages(job)->size(), 1u);
}

TEST_P(JobStoreConformance, ProgressAddsUpTheStages) {
  const std::string job = CreateWithUnits("a", 1, Stage::kPrepare);
  EXPECT_EQ(Get(job).progress().stage(), "");
  Lease lease = *Take(job, 0, 1, "w1", Stage::kPrepare);
  EXPECT_EQ(Get(job).progress().stage(), "prepare");
  ASSERT_TRUE(Store(lease, 0).ok());
  ASSERT_EQ(Plan(job, Stage::kScore, 3), absl::OkStatus());
  lease = *Take(job, 0, 2);
  ASSERT_TRUE(Store(lease, 0).ok());
  const v1::Progress progress = Get(job).progress();
  EXPECT_EQ(progress.stage(), "score");
  EXPECT_EQ(progress.done_units(), 2);
  EXPECT_EQ(progress.total_units(), 4);
  EXPECT_EQ(progress.done_rows(), 4);
  EXPECT_EQ(progress.total_rows(), 8);
  auto stages = store_->ListStages(job);
  ASSERT_EQ(stages->size(), 2u);
  EXPECT_EQ((*stages)[0].stage, Stage::kPrepare);
  EXPECT_EQ((*stages)[0].done_units, 1);
  EXPECT_EQ((*stages)[1].done_units, 1);
  EXPECT_EQ((*stages)[1].done_rows, 2);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, ChunksAreListedInUnitOrderInPages) {
  const std::string job = CreateWithUnits("a", 5);
  Lease lease = *Take(job, 0, 5);
  for (int64_t unit : {3, 0, 4}) ASSERT_TRUE(Store(lease, unit).ok());
  auto chunks = store_->ListChunks(job, Stage::kScore, 0, 2);
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  ASSERT_EQ(chunks->size(), 2u);
  EXPECT_EQ((*chunks)[0].unit, 0);
  const ChunkRecord& second = (*chunks)[1];
  EXPECT_EQ(second.stage, Stage::kScore);
  EXPECT_EQ(second.unit, 3);
  EXPECT_EQ(second.digest, "digest-3");
  EXPECT_EQ(second.bytes, 103);
  EXPECT_EQ(second.counts.rows(), 2);
  EXPECT_EQ(second.counts.rules(0).rule(), -1);
  EXPECT_EQ(second.counts.rules(0).correct(), 1);
  chunks = store_->ListChunks(job, Stage::kScore, 4, 2);
  ASSERT_EQ(chunks->size(), 1u);
  EXPECT_EQ((*chunks)[0].unit, 4);
  EXPECT_THAT(*store_->ListChunks(job, Stage::kAblate, 0, 10), IsEmpty());
}

TEST_P(JobStoreConformance, LiveDigestsAreThoseThatSomeJobRefersTo) {
  EXPECT_THAT(*store_->LiveDigests(), IsEmpty());
  const std::string a = CreateWithUnits("a", 2);
  const std::string b = Create("b").name();
  ASSERT_EQ(Plan(b, Stage::kScore, 1, "other-manifest"), absl::OkStatus());
  const std::string c = Create("c").name();
  ASSERT_EQ(Plan(c, Stage::kPrepare, 1, ""), absl::OkStatus());
  ASSERT_TRUE(Store(*Take(a, 0, 2), 1, "shared").ok());
  ASSERT_TRUE(Store(*Take(b, 0, 1), 0, "shared").ok());
  EXPECT_THAT(*store_->LiveDigests(), ElementsAre("manifest", "other-manifest", "shared"));
  ASSERT_TRUE(Move(a, {v1::Job::STARTING}, v1::Job::CANCELLED).ok());
  ASSERT_EQ(store_->DeleteJob(a, ""), absl::OkStatus());
  EXPECT_THAT(*store_->LiveDigests(), ElementsAre("other-manifest", "shared"));
}

TEST_P(JobStoreConformance, AManifestIsFoundByItsKeyWhileAJobRefersToIt) {
  EXPECT_EQ(*store_->FindManifestKey("k"), std::nullopt);
  const std::string a = CreateWithUnits("a", 1, Stage::kPrepare);
  ASSERT_TRUE(Store(*Take(a, 0, 1, "w1", Stage::kPrepare), 0, "m1").ok());
  ASSERT_EQ(store_->PutManifestKey("k", "m1"), absl::OkStatus());
  ASSERT_EQ(store_->PutManifestKey("k", "m1"), absl::OkStatus());
  EXPECT_EQ(*store_->FindManifestKey("k"), "m1");
  // A second job keeps it when the first goes.
  const std::string b = Create("b").name();
  ASSERT_EQ(Plan(b, Stage::kScore, 1, "m1"), absl::OkStatus());
  for (const std::string& job : {a, b}) {
    ASSERT_TRUE(Move(job, {v1::Job::QUEUED, v1::Job::STARTING}, v1::Job::SUCCEEDED).ok());
  }
  ASSERT_EQ(store_->DeleteJob(a, ""), absl::OkStatus());
  EXPECT_EQ(*store_->FindManifestKey("k"), "m1");
  ASSERT_EQ(store_->DeleteJob(b, ""), absl::OkStatus());
  EXPECT_EQ(*store_->FindManifestKey("k"), std::nullopt);
  // A key whose digest no job refers to leads nowhere, and can be set anew.
  ASSERT_EQ(store_->PutManifestKey("k", "gone"), absl::OkStatus());
  EXPECT_EQ(*store_->FindManifestKey("k"), std::nullopt);
  const std::string c = Create("c").name();
  ASSERT_EQ(Plan(c, Stage::kScore, 1, "m2"), absl::OkStatus());
  ASSERT_EQ(store_->PutManifestKey("k", "m2"), absl::OkStatus());
  EXPECT_EQ(*store_->FindManifestKey("k"), "m2");
}

TEST_P(JobStoreConformance, TheViewShowsWhatIsNeitherStoredNorLeased) {
  const std::string job = CreateWithUnits("a", 10);
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(0, 10)));
  Lease first = *Take(job, 0, 3, "w1");
  Lease middle = *Take(job, 5, 2, "w2");
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(3, 2), Pair(7, 3)));
  ASSERT_TRUE(Store(first, 1).ok());
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(3, 2), Pair(7, 3)));
  ASSERT_TRUE(End(first, LeaseEnd::kReleased).ok());  // 0 and 2 come back, 2 joins 3
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(0, 1), Pair(2, 3), Pair(7, 3)));
  ASSERT_TRUE(End(middle, LeaseEnd::kReleased).ok());
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(0, 1), Pair(2, 8)));
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, TheViewDescribesStagesAndLeases) {
  NewJob request = Request("a", "bob");
  request.job.set_priority(5);
  const std::string job = store_->CreateJob(request, 10)->job.name();
  ASSERT_EQ(Plan(job, Stage::kScore, 4), absl::OkStatus());
  CreateWithUnits("b", 1);
  Lease lease = *Take(job, 1, 2, "w7");
  auto view = store_->View();
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_EQ(view->runnable.size(), 2u);  // oldest first
  const RunnableStage& stage = view->runnable[0];
  EXPECT_EQ(stage.job, job);
  EXPECT_EQ(stage.owner, "bob");
  EXPECT_EQ(stage.model, "m");
  EXPECT_EQ(stage.priority, 5);
  EXPECT_EQ(stage.stage, Stage::kScore);
  EXPECT_EQ(stage.created, std::chrono::seconds(1'760'000'000));
  EXPECT_EQ(stage.rows_per_unit, 2);
  ASSERT_EQ(view->leases.size(), 1u);
  EXPECT_EQ(view->leases[0].task, lease.task);
  EXPECT_EQ(view->leases[0].worker, "w7");
  EXPECT_EQ(view->leases[0].first_unit, 1);
  EXPECT_EQ(view->leases[0].unit_count, 2);
  EXPECT_EQ(view->leases[0].expires, clock_.Monotonic() + kTerm);
}

TEST_P(JobStoreConformance, OnlyJobsThatMayRunAreInTheView) {
  const std::string job = CreateWithUnits("a", 2);
  using State = v1::Job::State;
  const std::vector<State> any = {v1::Job::QUEUED, v1::Job::STARTING,   v1::Job::RUNNING,
                                  v1::Job::PAUSED, v1::Job::CANCELLING, v1::Job::CANCELLED};
  auto shown = [&](State state) {
    EXPECT_TRUE(Move(job, any, state).ok());
    return !FreeUnits(job).empty();
  };
  EXPECT_TRUE(shown(v1::Job::STARTING));
  EXPECT_TRUE(shown(v1::Job::RUNNING));
  EXPECT_FALSE(shown(v1::Job::PAUSED));
  EXPECT_TRUE(shown(v1::Job::QUEUED));
  EXPECT_FALSE(shown(v1::Job::CANCELLING));
  EXPECT_FALSE(shown(v1::Job::CANCELLED));
}

TEST_P(JobStoreConformance, AStageWithAllUnitsLeasedOrStoredIsNotInTheView) {
  const std::string job = CreateWithUnits("a", 2);
  Lease lease = *Take(job, 0, 2);
  EXPECT_THAT(store_->View()->runnable, IsEmpty());
  ASSERT_TRUE(Store(lease, 0).ok());
  ASSERT_TRUE(Store(lease, 1).ok());
  EXPECT_THAT(store_->View()->runnable, IsEmpty());
  EXPECT_THAT(store_->View()->leases, IsEmpty());
}

TEST_P(JobStoreConformance, UsageAddsUpAndHalvesEveryHalfLife) {
  ASSERT_EQ(store_->AddUsage("ann", 100), absl::OkStatus());
  ASSERT_EQ(store_->AddUsage("bob", 7), absl::OkStatus());
  EXPECT_DOUBLE_EQ(store_->View()->usage.at("ann"), 100);
  clock_.Advance(kUsageHalfLife);
  EXPECT_NEAR(store_->View()->usage.at("ann"), 50, 1e-9);
  ASSERT_EQ(store_->AddUsage("ann", 30), absl::OkStatus());
  EXPECT_NEAR(store_->View()->usage.at("ann"), 80, 1e-9);
  clock_.Advance(2 * Clock::Duration(kUsageHalfLife));
  EXPECT_NEAR(store_->View()->usage.at("ann"), 20, 1e-9);
  EXPECT_NEAR(store_->View()->usage.at("bob"), 7.0 / 8, 1e-9);
}

}  // namespace
}  // namespace headcount::store
