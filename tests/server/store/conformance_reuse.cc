// Rows known by what they were computed from, and stages that begin with some of their units
// stored.

#include "tests/server/store/conformance.h"

namespace headcount::store {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

ReusedUnit Reused(int64_t unit, const std::string& source) {
  ReusedUnit reused{.unit = unit, .digest = "digest", .bytes = 10, .source = source};
  reused.counts.set_rows(2);
  return reused;
}

StageRecord ScoreStage(const std::string& job, int64_t units) {
  return {.job = job, .stage = Stage::kScore, .units = units, .rows = 2 * units};
}

TEST_P(JobStoreConformance, RowsAreFoundWhileAJobHasTheirChunk) {
  const std::string job = CreateWithUnits("a", 1);
  ASSERT_TRUE(Store(*Take(job, 0, 1), 0, "chunk").ok());
  ASSERT_EQ(store_->PutRowKeys("chunk", "cpu", {"one", "two"}), absl::OkStatus());
  auto found = store_->FindRows({"two", "none", "one"});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  ASSERT_EQ((*found)[0].size(), 1u);
  EXPECT_EQ((*found)[0][0].digest, "chunk");
  EXPECT_EQ((*found)[0][0].row, 1);
  EXPECT_EQ((*found)[0][0].device_kind, "cpu");
  EXPECT_EQ((*found)[0][0].job, job);
  EXPECT_TRUE((*found)[1].empty());
  EXPECT_EQ((*found)[2][0].row, 0);

  ASSERT_TRUE(Move(job, {v1::Job::STARTING}, v1::Job::SUCCEEDED).ok());
  ASSERT_EQ(store_->DeleteJob(job, ""), absl::OkStatus());
  EXPECT_TRUE(store_->FindRows({"one"})->front().empty());
}

TEST_P(JobStoreConformance, ALaterChunkTakesThePlaceOfOneOfItsKindOfDeviceOnly) {
  const std::string job = CreateWithUnits("a", 3);
  Lease lease = *Take(job, 0, 3);
  for (int unit = 0; unit < 3; ++unit)
    ASSERT_TRUE(Store(lease, unit, "chunk" + std::to_string(unit)).ok());
  ASSERT_EQ(store_->PutRowKeys("chunk0", "cpu", {"key"}), absl::OkStatus());
  ASSERT_EQ(store_->PutRowKeys("chunk1", "gpu", {"key"}), absl::OkStatus());
  ASSERT_EQ(store_->PutRowKeys("chunk2", "gpu", {"key"}), absl::OkStatus());
  auto found = store_->FindRows({"key"});
  ASSERT_EQ(found->front().size(), 2u);
  EXPECT_EQ(found->front()[0].digest, "chunk0");
  EXPECT_EQ(found->front()[1].digest, "chunk2");
}

TEST_P(JobStoreConformance, ReusedUnitsAreStoredFromTheStart) {
  const std::string job = Create("a").name();
  ASSERT_EQ(store_->AddStage(ScoreStage(job, 5), {Reused(1, "x"), Reused(3, "y"), Reused(4, "x")}),
            absl::OkStatus());
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(0, 1), Pair(2, 1)));
  const v1::Job shown = Get(job);
  EXPECT_EQ(shown.progress().done_units(), 3);
  EXPECT_EQ(shown.progress().done_rows(), 6);
  EXPECT_EQ(shown.progress().reused_units(), 3);
  ASSERT_EQ(shown.provenance().reused_size(), 2);
  EXPECT_EQ(shown.provenance().reused(0).job(), "x");
  EXPECT_EQ(shown.provenance().reused(0).stage(), "score");
  EXPECT_EQ(shown.provenance().reused(0).units(), 2);
  EXPECT_EQ(Events(job).back().stage_planned().reused_units(), 3);
  EXPECT_EQ(store_->ListChunks(job, Stage::kScore, 0, 9)->size(), 3u);
  EXPECT_THAT(*store_->LiveDigests(), ::testing::Contains("digest"));

  // What is left is leased and stored as ever.
  EXPECT_EQ(Refusal(Take(job, 0, 3).status()), "ABORTED UNITS_TAKEN");
  ASSERT_TRUE(Store(*Take(job, 0, 1), 0).ok());
  auto last = Store(*Take(job, 2, 1), 2);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(last->stage_complete);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, ReuseDoesNotChangeTheEtagsMeaning) {
  const std::string job = Create("a").name();
  ASSERT_EQ(store_->AddStage(ScoreStage(job, 1), {Reused(0, "x")}), absl::OkStatus());
  const std::string etag = Get(job).etag();
  EXPECT_EQ(Get(job).etag(), etag);
  v1::Provenance more;
  more.set_dtype("float32");
  ASSERT_EQ(store_->SetProvenance(job, more), absl::OkStatus());
  EXPECT_EQ(Get(job).provenance().reused_size(), 1);  // it is not stored twice
}

TEST_P(JobStoreConformance, AReusedUnitBeyondTheStageOrGivenTwiceAddsNothing) {
  const std::string job = Create("a").name();
  const int64_t before = *store_->LastSequence(job);
  for (const std::vector<ReusedUnit>& wrong :
       {std::vector{Reused(2, "x")}, std::vector{Reused(0, "x"), Reused(0, "x")}}) {
    EXPECT_TRUE(absl::IsOutOfRange(store_->AddStage(ScoreStage(job, 2), wrong)));
    EXPECT_TRUE(store_->ListStages(job)->empty());
    EXPECT_EQ(*store_->LastSequence(job), before);
  }
}

}  // namespace
}  // namespace headcount::store
