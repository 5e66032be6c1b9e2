// What workers are told. Time is a fake clock's. How leases end is in dispatcher_leases_test.cc.

#include "server/queue/dispatcher.h"

#include <gtest/gtest.h>

#include "common/base/errors.h"
#include "tests/server/queue/dispatcher_fixture.h"

namespace headcount::queue {
namespace {

using std::chrono::seconds;
using DispatcherTest = DispatcherFixture;

TEST_F(DispatcherTest, AnIdleWorkerIsHeldUntilThereIsWork) {
  FakeWorker worker(server_, "w");
  const SyncOutcome idle = Sync(worker.Request());
  EXPECT_TRUE(idle.hold);
  EXPECT_TRUE(idle.response.has_idle());
  EXPECT_EQ(idle.hold_for, seconds(10));
  EXPECT_EQ(StateOf("w"), "idle");

  const int changes = server_.changes;
  const std::string job = server_.Create("a", kScore);
  EXPECT_GT(server_.changes, changes);
  const SyncOutcome run = Recheck(worker.Request());
  EXPECT_FALSE(run.hold);
  EXPECT_EQ(run.response.run().job(), job);
  EXPECT_EQ(run.response.run().stage(), "prepare");
  EXPECT_EQ(run.response.run().workload().task().task(), "pairs");
  EXPECT_EQ(run.response.run().lease_duration().seconds(), 30);
  EXPECT_EQ(server_.Get(job).state(), v1::Job::STARTING);
}

TEST_F(DispatcherTest, HoldingIsShorterThanTheLease) {
  server_.options.lease = seconds(6);
  server_.Restart();
  FakeWorker worker(server_, "w");
  EXPECT_EQ(Sync(worker.Request()).hold_for, seconds(2));
}

TEST_F(DispatcherTest, TheFirstRunningReportStartsTheJob) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  Sync(worker.Request(v1::CurrentTask::LOADING));
  EXPECT_EQ(server_.Get(job).state(), v1::Job::STARTING);
  EXPECT_EQ(StateOf("w"), "starting");
  const SyncOutcome same = Sync(worker.Request(v1::CurrentTask::RUNNING));
  EXPECT_EQ(server_.Get(job).state(), v1::Job::RUNNING);
  EXPECT_EQ(StateOf("w"), "running");
  EXPECT_TRUE(same.hold);
  EXPECT_EQ(same.response.run().name(), worker.task()->name());
}

TEST_F(DispatcherTest, ATaskCarriesItsUnitsRulesAndManifest) {
  const std::string job = Prepared(
      "a", "sweep { workload { model: 'tiny' task { task: 'pairs' } } scores: 'entropy' }");
  FakeWorker worker(server_, "w", 6);
  while (worker.Step() && worker.task().value_or(v1::Task()).stage() != "ablate") {
  }
  ASSERT_TRUE(worker.task().has_value());
  const v1::Task& task = *worker.task();
  EXPECT_EQ(task.job(), job);
  EXPECT_EQ(task.model(), "tiny");
  EXPECT_EQ(task.manifest_digest(), server_.Get(job).provenance().manifest_digest());
  ASSERT_EQ(task.units_size(), task.unit_count());
  EXPECT_EQ(task.units(0).rules(), 2);
  ASSERT_EQ(task.rules_size(), 2);
  EXPECT_EQ(task.rules(0).threshold().score(), "entropy");
  EXPECT_DOUBLE_EQ(task.rules(1).nominal_fraction(), .10);
}

TEST_F(DispatcherTest, InlinePromptsDoNotTravelAgainAfterPrepare) {
  const std::string job = Prepared(
      "a", "score { workload { model: 'tiny' requests { requests { context: 'The' } } } }");
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  ASSERT_EQ(worker.task()->stage(), "score");
  EXPECT_TRUE(worker.task()->workload().has_requests());
  EXPECT_EQ(worker.task()->workload().requests().requests_size(), 0);
}

TEST_F(DispatcherTest, ALostAnswerIsGivenAgain) {
  server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  const v1::Task first = Sync(worker.Request()).response.run();
  const v1::Task second = Sync(worker.Request()).response.run();
  EXPECT_EQ(second.name(), first.name());
  EXPECT_EQ(second.attempt(), first.attempt());
}

TEST_F(DispatcherTest, ARunningTaskOutlivesARestartOfTheServer) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w", 6);
  worker.Call(worker.Request());
  server_.Restart();
  EXPECT_TRUE(Sync(worker.Request(v1::CurrentTask::RUNNING)).response.has_run());
  EXPECT_EQ(StateOf("w"), "running");
  while (worker.Step()) {
  }
  EXPECT_EQ(server_.Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(Lost(job).empty());
}

TEST_F(DispatcherTest, AnOrderToStopIsNotRepeatedInAHotLoop) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  server_.SetState(job, {v1::Job::STARTING}, v1::Job::CANCELLING);
  EXPECT_FALSE(Sync(worker.Request(v1::CurrentTask::RUNNING)).hold);
  const SyncOutcome again = Sync(worker.Request(v1::CurrentTask::RUNNING));
  EXPECT_TRUE(again.hold);
  EXPECT_TRUE(again.response.has_cancel());
  EXPECT_LE(again.hold_for, seconds(1)) << "the first answer may have been lost";
}

TEST_F(DispatcherTest, CancelReachesTheWorkerAndEndsWhenItLetsGo) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.rows_per_second = 1000;  // all three units in one task
  worker.Step();
  EXPECT_TRUE(Sync(worker.Request(v1::CurrentTask::RUNNING)).hold);
  const int changes = server_.changes;
  server_.SetState(job, {v1::Job::STARTING, v1::Job::RUNNING}, v1::Job::CANCELLING);
  EXPECT_GT(server_.changes, changes);
  const SyncOutcome cancel = Recheck(worker.Request(v1::CurrentTask::RUNNING));
  EXPECT_FALSE(cancel.hold);
  EXPECT_EQ(cancel.response.cancel().task(), worker.task()->name());
  EXPECT_TRUE(worker.Report(0).ok()) << "the batch in progress still counts";
  EXPECT_EQ(server_.Get(job).state(), v1::Job::CANCELLING);
  EXPECT_TRUE(Sync(worker.Request(v1::CurrentTask::RELEASED)).response.has_idle());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::CANCELLED);
  EXPECT_TRUE(Lost(job).empty());
}

TEST_F(DispatcherTest, APausedJobGivesItsWorkerBackAndGoesOnLater) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.Step();
  server_.SetState(job, {v1::Job::STARTING, v1::Job::RUNNING}, v1::Job::PAUSED);
  EXPECT_FALSE(worker.Step());
  EXPECT_FALSE(worker.task().has_value());
  EXPECT_FALSE(worker.Step()) << "a paused job must get no worker";
  server_.SetState(job, {v1::Job::PAUSED}, v1::Job::QUEUED);
  while (worker.Step()) {
  }
  EXPECT_EQ(server_.Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(Lost(job).empty());
}

TEST_F(DispatcherTest, PausingAndResumingFasterThanTheWorkerLooksCostsNothing) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.Step();
  Sync(worker.Request(v1::CurrentTask::RUNNING));
  server_.SetState(job, {v1::Job::RUNNING}, v1::Job::PAUSED);
  server_.SetState(job, {v1::Job::PAUSED}, v1::Job::QUEUED);
  EXPECT_TRUE(Sync(worker.Request(v1::CurrentTask::RUNNING)).response.has_run());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::RUNNING);
}

TEST_F(DispatcherTest, TwoProcessesCannotShareAnId) {
  server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  FakeWorker other(server_, "w");
  other.Die();  // another instance
  const auto refused = server_.dispatcher->Synchronize(other.Request());
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status())) << refused.status();
  EXPECT_EQ(ReasonOf(refused.status()), "WORKER_ID_IN_USE");
  EXPECT_TRUE(Sync(worker.Request(v1::CurrentTask::RUNNING)).response.has_run());
}

TEST_F(DispatcherTest, ALeavingWorkerGetsNoTask) {
  server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  v1::SynchronizeRequest request = worker.Request();
  request.set_draining(true);
  const SyncOutcome outcome = Sync(request);
  EXPECT_FALSE(outcome.hold) << "it is about to exit and must not wait";
  EXPECT_TRUE(outcome.response.has_idle());
  FakeWorker successor(server_, "w");
  successor.Die();  // another instance
  EXPECT_TRUE(Sync(successor.Request()).response.has_run()) << "its place is free";
}

TEST_F(DispatcherTest, WorkersOfAnotherBuildAreRefused) {
  FakeWorker worker(server_, "w");
  v1::SynchronizeRequest request = worker.Request();
  request.set_numerics_version(catalog::kNumericsVersion + 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(server_.dispatcher->Synchronize(request).status()));
  request = worker.Request();
  request.clear_worker();
  EXPECT_EQ(FieldOf(server_.dispatcher->Synchronize(request).status()), "worker");
  request = worker.Request();
  request.clear_instance();
  EXPECT_EQ(FieldOf(server_.dispatcher->Synchronize(request).status()), "instance");
  EXPECT_TRUE(server_.dispatcher->Workers().empty());
}

TEST_F(DispatcherTest, AcceleratorTimeIsChargedToTheOwner) {
  Prepared("a", std::string("owner: 'ann' ") + kScore);
  Prepared("b", std::string("owner: 'bob' ") + kScore);
  FakeWorker worker(server_, "w", 6);
  worker.Step();
  const std::string first = worker.task()->job();
  for (int i = 0; i < 10; ++i) {
    server_.clock.Advance(seconds(20));
    Sync(worker.Request(v1::CurrentTask::RUNNING));
  }
  ASSERT_EQ(first, JobName("a"));
  const auto view = server_.jobs->View();
  EXPECT_NEAR(view->usage.at("ann"), 200, 2);
  // Ann has had her share: the next task is bob's, though hers is older and has the model.
  Sync(worker.Request(v1::CurrentTask::RELEASED));
  FakeWorker next(server_, "v", 6);
  next.Call(next.Request());
  const bool bobs =
      next.task()->job() == JobName("b") || server_.jobs->ListLeases(JobName("b"))->size() == 1;
  EXPECT_TRUE(bobs);
}

TEST_F(DispatcherTest, RowsPerSecondAreThoseOfTheJobsWorkers) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.rows_per_second = 2;
  worker.Step();
  EXPECT_DOUBLE_EQ(server_.dispatcher->RowsPerSecond(job), 2);
  EXPECT_DOUBLE_EQ(server_.dispatcher->RowsPerSecond(JobName("b")), 0);
  ASSERT_TRUE(server_.dispatcher->WorkerDied("w", "", "").ok());
  EXPECT_DOUBLE_EQ(server_.dispatcher->RowsPerSecond(job), 0);
}

TEST_F(DispatcherTest, AFloodOfOneUsersJobsDoesNotStarveAnother) {
  for (int i = 0; i < 50; ++i) Prepared("flood" + std::to_string(i));
  FakeWorker worker(server_, "w", 6);
  std::string served;
  for (int tasks = 0; tasks < 30 && served != JobName("late"); ++tasks) {
    if (tasks == 10) server_.Create("late", std::string("owner: 'bob' ") + kScore);
    worker.Call(worker.Request());
    ASSERT_TRUE(worker.task().has_value());
    served = worker.task()->job();
    server_.clock.Advance(seconds(20));
    worker.Step();
  }
  EXPECT_EQ(served, JobName("late"));
}

TEST_F(DispatcherTest, AJobIsPreparedWhileTheDeviceWorksOnAnother) {
  Prepared("first");
  FakeWorker device(server_, "w", 6);
  FakeWorker preparing(server_, "w/prepare", 6);
  device.lane = v1::SynchronizeRequest::UNITS;
  preparing.lane = v1::SynchronizeRequest::PREPARE;
  device.process = preparing.process = "process";
  ASSERT_TRUE(device.Call(device.Request()));
  EXPECT_EQ(device.task()->job(), JobName("first"));
  EXPECT_FALSE(preparing.Call(preparing.Request()));
  EXPECT_TRUE(preparing.last().hold);
  const std::string second = server_.Create(
      "second", "score { workload { model: 'tiny' requests { requests { context: 'The' } } } }");
  ASSERT_TRUE(preparing.Call(preparing.Request()));
  EXPECT_EQ(preparing.task()->job(), second);
  EXPECT_EQ(preparing.task()->stage(), "prepare");
  while (preparing.Step()) {
  }
  EXPECT_TRUE(server_.jobs->GetStage(second, store::Stage::kScore).ok());
  EXPECT_TRUE(server_.jobs->ListChunks(JobName("first"), store::Stage::kScore, 0, 1)->empty())
      << "the device is still at its first unit";
  EXPECT_FALSE(preparing.Call(preparing.Request())) << "units are the device's";
  while (device.Step()) {
  }
  EXPECT_EQ(server_.Get(second).state(), v1::Job::SUCCEEDED);
}

TEST_F(DispatcherTest, TheLanesOfAProcessAreListedAsOneWorker) {
  FakeWorker device(server_, "w", 6);
  FakeWorker preparing(server_, "w/prepare", 6);
  device.lane = v1::SynchronizeRequest::UNITS;
  preparing.lane = v1::SynchronizeRequest::PREPARE;
  device.process = preparing.process = "process";
  device.Call(device.Request());
  preparing.Call(preparing.Request());
  EXPECT_EQ(server_.dispatcher->Workers().size(), 1u);
  EXPECT_EQ(StateOf("w"), "idle");
  const std::string job = server_.Create("a", kScore);
  preparing.Call(preparing.Request());
  preparing.Call(preparing.Request(v1::CurrentTask::RUNNING));
  EXPECT_EQ(StateOf("w"), "running");
  EXPECT_EQ(server_.dispatcher->Workers()[0].job(), job);
}

}  // namespace
}  // namespace headcount::queue
