// How rows become batches, and how a batch that does not fit is halved.

#include "worker/engine/batch.h"

#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;

// Rows of these lengths that have no two tokens in common.
class PlanBatchesTest : public ::testing::Test {
 protected:
  void AddRow(int length, int first_token) {
    std::vector<int32_t>& tokens = tokens_.emplace_back();
    for (int i = 0; i < length; ++i) tokens.push_back(first_token + i);
    unit_.rows.push_back({.suffix = tokens});
  }

  std::deque<std::vector<int32_t>> tokens_;
  Unit unit_;
};

TEST_F(PlanBatchesTest, SortsByLengthAndKeepsTheBudget) {
  for (int length : {5, 3, 5, 1, 20, 3}) AddRow(length, 100 * static_cast<int>(tokens_.size()));
  EXPECT_THAT(PlanBatches(unit_, 10, {}),
              ElementsAre(ElementsAre(3, 1, 5), ElementsAre(0, 2), ElementsAre(4)));
  EXPECT_THAT(PlanBatches(unit_, 1000, {}), ElementsAre(ElementsAre(3, 1, 5, 0, 2, 4)));
  EXPECT_TRUE(PlanBatches({}, 10, {}).empty());
}

TEST_F(PlanBatchesTest, ASharedPrefixCountsOnce) {
  std::vector<int32_t> prefix(50, 9);
  unit_.prefix = prefix;
  for (int i = 0; i < 4; ++i) AddRow(10, 100 * i);
  EXPECT_THAT(PlanBatches(unit_, 90, {}), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(PlanBatches(unit_, 90, {.prefixes = false}),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST_F(PlanBatchesTest, WhatIsTooLargeIsCutEvenly) {
  std::vector<int32_t> prefix(50, 9);
  unit_.prefix = prefix;
  for (int i = 0; i < 6; ++i) AddRow(10, 100 * i);
  // Room for four; two and two waste less than four and two.
  EXPECT_THAT(PlanBatches(unit_, 90, {}), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  // A prefix beyond the budget: parts may exceed it by half.
  EXPECT_THAT(PlanBatches(unit_, 40, {}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
}

TEST_F(PlanBatchesTest, EqualInputsOfDifferentRulesCountOnce) {
  unit_.rules.resize(3);
  AddRow(30, 0);
  for (int rule : {1, 2}) unit_.rows.push_back({.suffix = tokens_[0], .rule = rule});
  EXPECT_THAT(PlanBatches(unit_, 30, {}), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_EQ(PlanBatches(unit_, 30, {.rules = false}).size(), 3u);
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
