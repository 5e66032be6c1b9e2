// How rows become batches, and how a batch that does not fit is halved.

#include "worker/engine/batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;

TEST(PlanBatches, SortsByLengthAndKeepsTheBudget) {
  const int64_t lengths[] = {5, 3, 5, 1, 20, 3};
  EXPECT_THAT(PlanBatches(lengths, 10),
              ElementsAre(ElementsAre(3, 1, 5), ElementsAre(0, 2), ElementsAre(4)));
  EXPECT_THAT(PlanBatches(lengths, 1000), ElementsAre(ElementsAre(3, 1, 5, 0, 2, 4)));
  EXPECT_TRUE(PlanBatches({}, 10).empty());
}

TEST(RunBatches, HalvesWhatDoesNotFitDownToOneRow) {
  CancelFlag cancel = false;
  int backoffs = 0, released = 0;
  std::vector<Batch> done;
  const auto run = [&](const Batch& batch) {
    if (batch.size() > 2) return absl::ResourceExhaustedError("too large");
    done.push_back(batch);
    return absl::OkStatus();
  };
  const auto release = [&] { ++released; };
  ASSERT_TRUE(RunBatches({{0, 1, 2, 3, 4}, {5}}, cancel, run, release, backoffs).ok());
  EXPECT_THAT(done,
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4), ElementsAre(5)));
  EXPECT_EQ(backoffs, 2);
  EXPECT_EQ(released, 2);
}

TEST(RunBatches, ARowThatNeverFitsIsAnError) {
  CancelFlag cancel = false;
  int backoffs = 0;
  const auto run = [](const Batch&) { return absl::ResourceExhaustedError("never"); };
  const absl::Status status = RunBatches({{0, 1, 2}}, cancel, run, [] {}, backoffs);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backoffs, 2);
}

TEST(RunBatches, OtherErrorsAreNotRetried) {
  CancelFlag cancel = false;
  int backoffs = 0, calls = 0;
  const auto run = [&](const Batch&) {
    ++calls;
    return absl::InternalError("broken");
  };
  EXPECT_EQ(
      RunBatches({{0, 1}, {2}}, cancel, run, [] {}, backoffs).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(backoffs, 0);
}

TEST(RunBatches, ACancelActsBetweenBatches) {
  CancelFlag cancel = false;
  int backoffs = 0, calls = 0;
  const auto run = [&](const Batch&) {
    if (++calls == 2) cancel = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(RunBatches(
                {{0}, {1}, {2}}, cancel, run, [] {}, backoffs)
                .code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace headcount::engine
