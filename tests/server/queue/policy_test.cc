// The order in which work is given out, over hand-made views.

#include "server/queue/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headcount::queue {
namespace {

using std::chrono::seconds;
using store::RunnableStage;
using store::Stage;
using testing::ElementsAre;

class PolicyTest : public testing::Test {
 protected:
  // Later ones are younger.
  RunnableStage& Add(const std::string& job) {
    RunnableStage stage{.job = job, .owner = "ann", .model = "m", .stage = Stage::kAblate};
    stage.free_units = {{0, 100}};
    stage.rows_per_unit = 128;
    view_.runnable.push_back(stage);
    return view_.runnable.back();
  }

  PolicyInput Input() {
    return {.view = view_,
            .worker = worker_,
            .others = others_,
            .waited = waited_,
            .failed_here = failed_here_,
            .lost = lost_,
            .beside = beside_};
  }

  std::vector<std::string> Order() {
    std::vector<std::string> order;
    for (const RunnableStage* stage : Rank(Input(), parameters_)) order.push_back(stage->job);
    return order;
  }

  store::QueueView view_;
  PolicyWorker worker_{.id = "w", .loaded_model = "m"};
  std::vector<PolicyWorker> others_;
  std::map<std::string, Clock::Duration> waited_;
  std::set<std::string> failed_here_;
  std::set<std::string> lost_;
  std::string beside_;
  PolicyParameters parameters_{
      .task_target = seconds(20), .share_slack = 60, .affinity_wait = seconds(60)};
};

TEST_F(PolicyTest, NothingToDo) {
  EXPECT_EQ(ChooseTask(Input(), parameters_), std::nullopt);
  Add("a").free_units.clear();
  EXPECT_EQ(ChooseTask(Input(), parameters_), std::nullopt);
}

TEST_F(PolicyTest, OldestFirst) {
  Add("old");
  Add("young");
  EXPECT_THAT(Order(), ElementsAre("old", "young"));
}

TEST_F(PolicyTest, PriorityBeforeAge) {
  Add("normal");
  Add("low").priority = -5;
  Add("high").priority = 3;
  EXPECT_THAT(Order(), ElementsAre("high", "normal", "low"));
}

TEST_F(PolicyTest, PrepareBeforePriority) {
  Add("high").priority = 100;
  Add("prepare").stage = Stage::kPrepare;
  EXPECT_THAT(Order(), ElementsAre("prepare", "high"));
}

TEST_F(PolicyTest, WhoHasUsedMuchWaits) {
  Add("a1");
  Add("a2");
  Add("b1").owner = "bob";
  view_.usage = {{"ann", 1000}, {"bob", 5}};
  EXPECT_THAT(Order(), ElementsAre("b1", "a1", "a2"));
}

TEST_F(PolicyTest, AmongThoseOverTheirShareTheLeastUsageComesFirst) {
  Add("a").owner = "ann";
  Add("b").owner = "bob";
  Add("c").owner = "cleo";
  view_.usage = {{"ann", 1000}, {"bob", 500}};
  EXPECT_THAT(Order(), ElementsAre("c", "b", "a"));
}

TEST_F(PolicyTest, SmallDifferencesInUsageDoNotCount) {
  Add("a1");
  Add("b1").owner = "bob";
  view_.usage = {{"ann", 59}};
  EXPECT_THAT(Order(), ElementsAre("a1", "b1"));
  view_.usage = {{"ann", 61}};
  EXPECT_THAT(Order(), ElementsAre("b1", "a1"));
}

TEST_F(PolicyTest, PriorityBeforeShare) {
  Add("a").priority = 1;
  Add("b").owner = "bob";
  view_.usage = {{"ann", 1000}};
  EXPECT_THAT(Order(), ElementsAre("a", "b"));
}

TEST_F(PolicyTest, ShareIsComparedAmongEqualPriority) {
  // Bob's low-priority job must not make ann and cleo, who are even, differ.
  Add("a").owner = "ann";
  Add("c").owner = "cleo";
  Add("b").owner = "bob";
  view_.runnable.back().priority = -1;
  view_.usage = {{"ann", 1030}, {"cleo", 1000}, {"bob", 0}};
  EXPECT_THAT(Order(), ElementsAre("a", "c", "b"));
}

TEST_F(PolicyTest, TheLoadedModelFirst) {
  Add("other").model = "n";
  Add("mine");
  EXPECT_THAT(Order(), ElementsAre("mine", "other"));
}

TEST_F(PolicyTest, AModelThatNobodyHasBeforeOneThatAnotherHas) {
  worker_.loaded_model = "";
  others_ = {{.id = "v", .loaded_model = "m"}};
  Add("theirs");
  Add("nobody's").model = "n";
  EXPECT_THAT(Order(), ElementsAre("nobody's", "theirs"));
}

TEST_F(PolicyTest, WaitingTooLongBeatsAffinity) {
  Add("older").model = "n";
  Add("other").model = "n";
  Add("mine");
  waited_ = {{"older", seconds(60)}, {"other", seconds(61)}, {"mine", seconds(2)}};
  EXPECT_THAT(Order(), ElementsAre("other", "mine", "older"));
  waited_["older"] = seconds(90);
  EXPECT_THAT(Order(), ElementsAre("older", "other", "mine"));
}

TEST_F(PolicyTest, ShareBeforeWaiting) {
  Add("a").model = "n";
  Add("b").owner = "bob";
  view_.usage = {{"ann", 1000}};
  waited_ = {{"a", seconds(1000)}};
  EXPECT_THAT(Order(), ElementsAre("b", "a"));
}

TEST_F(PolicyTest, WhatFailedHereGoesToAnother) {
  Add("failed");
  Add("fine");
  failed_here_ = {"failed"};
  EXPECT_THAT(Order(), ElementsAre("failed", "fine")) << "there is no other worker";
  others_ = {{.id = "v", .loaded_model = ""}};
  EXPECT_THAT(Order(), ElementsAre("fine", "failed"));
  view_.runnable.pop_back();
  EXPECT_THAT(Order(), ElementsAre("failed")) << "another worker is preferred, not required";
}

TEST_F(PolicyTest, UnitsFillTheTargetAtTheWorkersSpeed) {
  Add("a");
  auto units = [this] { return ChooseTask(Input(), parameters_)->unit_count; };
  EXPECT_EQ(units(), 1) << "speed unknown";
  worker_.rows_per_second = 64;  // a unit takes 2 s
  EXPECT_EQ(units(), 10);
  worker_.rows_per_second = 1;  // a unit takes 128 s
  EXPECT_EQ(units(), 1);
  worker_.rows_per_second = 1e30;
  EXPECT_EQ(units(), 100) << "no more than there are";
}

TEST_F(PolicyTest, TasksAreConsecutiveUnitsOfTheFirstGap) {
  Add("a").free_units = {{7, 3}, {20, 50}};
  worker_.rows_per_second = 1000;
  const auto task = ChooseTask(Input(), parameters_);
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->job, "a");
  EXPECT_EQ(task->stage, Stage::kAblate);
  EXPECT_EQ(task->worker, "w");
  EXPECT_EQ(task->first_unit, 7);
  EXPECT_EQ(task->unit_count, 3);
}

TEST_F(PolicyTest, APrepareTaskIsOneUnit) {
  Add("a").stage = Stage::kPrepare;
  worker_.rows_per_second = 1e9;
  EXPECT_EQ(ChooseTask(Input(), parameters_)->unit_count, 1);
}

TEST_F(PolicyTest, EachLaneGetsItsOwnWork) {
  Add("prepares").stage = Stage::kPrepare;
  Add("computes");
  EXPECT_THAT(Order(), ElementsAre("prepares", "computes"));
  worker_.lane = Lane::kUnits;
  EXPECT_THAT(Order(), ElementsAre("computes"));
  worker_.lane = Lane::kPrepare;
  EXPECT_THAT(Order(), ElementsAre("prepares"));
}

TEST_F(PolicyTest, AJobThatWasLostGetsTheProcessForItself) {
  Add("lost").stage = Stage::kPrepare;
  Add("prepares").stage = Stage::kPrepare;
  Add("computes");
  lost_ = {"lost"};
  worker_.lane = Lane::kPrepare;
  EXPECT_THAT(Order(), ElementsAre("prepares"));
  worker_.lane = Lane::kUnits;
  EXPECT_THAT(Order(), ElementsAre("lost", "computes"));
  beside_ = "prepares";
  EXPECT_THAT(Order(), ElementsAre("computes")) << "not while the other lane is at work";
  worker_.lane = Lane::kPrepare;
  beside_ = "lost";
  EXPECT_THAT(Order(), ElementsAre()) << "nothing beside it";
}

TEST_F(PolicyTest, OnlyAWorkerOfTheLaneCanTakeAFailedJobOver) {
  Add("failed");
  Add("next");
  failed_here_ = lost_ = {"failed"};
  others_ = {{.id = "v", .lane = Lane::kPrepare}};
  EXPECT_THAT(Order(), ElementsAre("failed", "next"));
  others_ = {{.id = "v", .lane = Lane::kUnits}};
  EXPECT_THAT(Order(), ElementsAre("next", "failed"));
}

}  // namespace
}  // namespace headcount::queue
