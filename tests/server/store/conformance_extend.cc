// Stages that grow: units are added at the end, what was there stays.

#include "tests/server/store/conformance.h"

namespace headcount::store {
namespace {

using testing::ElementsAre;

StageRecord Longer(const std::string& job, int64_t units) {
  StageRecord stage;
  stage.job = job;
  stage.stage = Stage::kScore;
  stage.manifest_digest = "manifest";
  stage.units = units;
  stage.rows = 2 * units;
  for (int64_t unit = 0; unit < units; ++unit) stage.plan.add_units()->set_unit(unit);
  return stage;
}

TEST_P(JobStoreConformance, AStageGrowsAtItsEnd) {
  const std::string job = CreateWithUnits("a", 3);
  const auto lease = Take(job, 0, 3);
  ASSERT_TRUE(lease.ok()) << lease.status();
  for (int64_t unit = 0; unit < 3; ++unit) ASSERT_TRUE(Store(*lease, unit).ok());
  EXPECT_THAT(FreeUnits(job), ElementsAre());

  ASSERT_EQ(store_->ExtendStage(Longer(job, 5)), absl::OkStatus());
  const auto stage = store_->GetStage(job, Stage::kScore);
  ASSERT_TRUE(stage.ok()) << stage.status();
  EXPECT_EQ(stage->units, 5);
  EXPECT_EQ(stage->done_units, 3);
  EXPECT_EQ(stage->rows, 10);
  EXPECT_EQ(stage->plan.units_size(), 5);
  EXPECT_THAT(FreeUnits(job), ElementsAre(std::pair<int64_t, int64_t>(3, 2)));
  EXPECT_EQ(Get(job).progress().total_units(), 5);
  EXPECT_EQ(Events(job).back().stage_planned().units(), 5);

  const auto more = Take(job, 3, 2);
  ASSERT_TRUE(more.ok()) << more.status();
  ASSERT_TRUE(Store(*more, 3).ok());
  const auto last = Store(*more, 4);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(last->stage_complete);
}

TEST_P(JobStoreConformance, FreeUnitsOfAGrownStageAreOneRun) {
  const std::string job = CreateWithUnits("a", 3);
  ASSERT_EQ(store_->ExtendStage(Longer(job, 5)), absl::OkStatus());
  EXPECT_THAT(FreeUnits(job), ElementsAre(std::pair<int64_t, int64_t>(0, 5)));
}

TEST_P(JobStoreConformance, AStageDoesNotGrowTwiceOrAfterItsJob) {
  const std::string job = CreateWithUnits("a", 3);
  const absl::Status same = store_->ExtendStage(Longer(job, 3));
  EXPECT_EQ(same.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(same), "STAGE_CHANGED");
  StageRecord other = Longer(job, 5);
  other.stage = Stage::kAblate;
  EXPECT_EQ(store_->ExtendStage(other).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Move(job, {v1::Job::QUEUED}, v1::Job::CANCELLED).ok());
  const absl::Status ended = store_->ExtendStage(Longer(job, 5));
  EXPECT_EQ(ended.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(ended), "JOB_STATE");
  EXPECT_EQ(store_->ExtendStage(Longer("projects/default/jobs/none", 5)).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headcount::store
