// What workers are told, and how leases end. Time is a fake clock's.

#include "server/queue/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.h"
#include "common/format/rpc_status.h"
#include "tests/server/queue/fake_worker.h"

namespace headcount::queue {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr char kScore[] = "score { workload { model: 'tiny' task { task: 'pairs' } } }";

class DispatcherTest : public testing::Test {
 protected:
  SyncOutcome Sync(const v1::SynchronizeRequest& request) {
    auto outcome = server_.dispatcher->Synchronize(request);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(SyncOutcome{});
  }
  SyncOutcome Recheck(const v1::SynchronizeRequest& request) {
    auto outcome = server_.dispatcher->Recheck(request);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(SyncOutcome{});
  }

  // A job whose prepare stage is done; score has three units of four samples.
  std::string Prepared(const std::string& id, const std::string& spec = kScore) {
    const std::string job = server_.Create(id, spec);
    const auto known = server_.jobs->GetStage(job, store::Stage::kScore);
    if (known.ok()) return job;  // a job before it has left its manifest
    FakeWorker worker(server_, "preparer", 6);
    worker.Call(worker.Request());
    EXPECT_TRUE(worker.Report(0).ok());
    EXPECT_TRUE(server_.dispatcher->WorkerDied("preparer", "", "").ok());
    const v1::Job prepared = server_.Get(job);
    EXPECT_TRUE(server_.jobs->GetStage(job, store::Stage::kScore).ok()) << prepared.DebugString();
    return job;
  }

  absl::Status Failed(FakeWorker& worker, const absl::Status& error) {
    v1::SynchronizeRequest request = worker.Request(v1::CurrentTask::FAILED);
    *request.mutable_task()->mutable_error() = format::ToRpcStatus(error);
    request.set_draining(true);  // so that it is not given the next task at once
    return server_.dispatcher->Synchronize(request).status();
  }

  std::vector<v1::TaskLost> Lost(const std::string& job) {
    std::vector<v1::TaskLost> lost;
    for (const v1::JobEvent& event : server_.Events(job)) {
      if (event.has_task_lost()) lost.push_back(event.task_lost());
    }
    return lost;
  }

  std::string StateOf(const std::string& worker) {
    for (const v1::WorkerInfo& info : server_.dispatcher->Workers()) {
      if (info.worker() == worker) return info.state();
    }
    return "unknown";
  }

  TestServer server_;
};

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

TEST_F(DispatcherTest, RenewingKeepsTheLeaseAndSilenceLosesIt) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  for (int i = 0; i < 10; ++i) {
    server_.clock.Advance(seconds(29));
    ASSERT_TRUE(Sync(worker.Request(v1::CurrentTask::RUNNING)).response.has_run());
    ASSERT_TRUE(server_.dispatcher->Tick().ok());
  }
  // Asking again for a held call is not a sign of life.
  server_.clock.Advance(seconds(20));
  EXPECT_TRUE(Recheck(worker.Request(v1::CurrentTask::RUNNING)).hold);
  server_.clock.Advance(seconds(11));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  ASSERT_EQ(Lost(job).size(), 1u);
  EXPECT_EQ(Lost(job)[0].cause(), "LEASE_EXPIRED");
  EXPECT_EQ(Lost(job)[0].worker(), "w");
  EXPECT_EQ(StateOf("w"), "lost");
  EXPECT_EQ(server_.dispatcher->LostTasks().at("LEASE_EXPIRED"), 1);
  // SIGSTOP, then SIGCONT: it is told to drop the task.
  const SyncOutcome late = Sync(worker.Request(v1::CurrentTask::RUNNING));
  EXPECT_EQ(late.response.cancel().task(), worker.task()->name());
  EXPECT_FALSE(late.hold);
  EXPECT_TRUE(absl::IsAborted(worker.Report(0).status()));
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

TEST_F(DispatcherTest, ACancelledJobEndsThoughItsWorkerDied) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.Step();
  server_.SetState(job, {v1::Job::STARTING, v1::Job::RUNNING}, v1::Job::CANCELLING);
  server_.clock.Advance(seconds(31));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::CANCELLED);
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

TEST_F(DispatcherTest, AnIdIsFreeAgainOnceItsProcessIsSilent) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  const v1::SynchronizeRequest old = worker.Request(v1::CurrentTask::RUNNING);
  server_.clock.Advance(seconds(30));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  worker.Die();
  EXPECT_TRUE(Sync(worker.Request()).response.has_run());
  EXPECT_EQ(Lost(job).size(), 1u);
  EXPECT_TRUE(absl::IsAlreadyExists(server_.dispatcher->Synchronize(old).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(server_.dispatcher->Recheck(old).status()));
}

TEST_F(DispatcherTest, ADeadWorkersUnitsAreFreeAtOnce) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  FakeWorker other(server_, "v");
  worker.Call(worker.Request());
  EXPECT_FALSE(other.Call(other.Request()));
  ASSERT_TRUE(server_.dispatcher->WorkerDied("w", "not this one", "").ok());
  EXPECT_FALSE(other.Call(other.Request()));
  const int changes = server_.changes;
  ASSERT_TRUE(
      server_.dispatcher->WorkerDied("w", worker.Request().instance(), "killed by signal 9").ok());
  EXPECT_GT(server_.changes, changes);
  EXPECT_TRUE(other.Call(other.Request()));
  ASSERT_EQ(Lost(job).size(), 1u);
  EXPECT_EQ(Lost(job)[0].cause(), "WORKER_DIED");
  EXPECT_EQ(Lost(job)[0].detail(), "killed by signal 9");
  EXPECT_EQ(server_.Get(job).attempt(), 2);
}

TEST_F(DispatcherTest, AUnitThatKillsThreeWorkersFailsItsJobAlone) {
  const std::string poisoned = Prepared("poisoned");
  const std::string fine = Prepared("fine");
  FakeWorker worker(server_, "w", 6);
  worker.rows_per_second = 1000;
  // Its second unit is poison: the first is stored by the first lease.
  while (!worker.task().has_value() || worker.task()->job() != poisoned) worker.Step();
  ASSERT_TRUE(worker.Report(0).ok());
  for (int i = 0; i < 4 && server_.Get(poisoned).state() != v1::Job::FAILED; ++i) {
    ASSERT_TRUE(server_.dispatcher->WorkerDied("w", "", "killed by signal 6").ok());
    worker.Die();
    while (server_.Get(poisoned).state() != v1::Job::FAILED &&
           (!worker.task().has_value() || worker.task()->job() != poisoned)) {
      worker.Step();
    }
  }
  const v1::Job failed = server_.Get(poisoned);
  EXPECT_EQ(failed.state(), v1::Job::FAILED);
  EXPECT_EQ(failed.state_reason(), "POISON_TASK");
  EXPECT_EQ(failed.error().code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_THAT(failed.error().message(), HasSubstr("unit 1 of stage score (samples 4 to 7)"));
  EXPECT_EQ(ReasonOf(format::FromRpcStatus(failed.error())), "POISON_TASK");
  // The first death was after a stored unit and does not count.
  EXPECT_EQ(Lost(poisoned).size(), 4u);
  EXPECT_EQ(server_.jobs->ListChunks(poisoned, store::Stage::kScore, 0, 10)->size(), 1u);
  while (worker.Step()) {
  }
  EXPECT_EQ(server_.Get(fine).state(), v1::Job::SUCCEEDED);
}

TEST_F(DispatcherTest, ErrorsThatNoRetryHelpsFailTheJobAtOnce) {
  int n = 0;
  for (absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kDataLoss, absl::StatusCode::kOutOfRange,
        absl::StatusCode::kUnimplemented, absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kNotFound}) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    const std::string job = server_.Create("j" + std::to_string(n++), kScore);
    FakeWorker worker(server_, "w" + std::to_string(n));
    worker.Call(worker.Request());
    ASSERT_TRUE(
        Failed(worker, WithReason(absl::Status(code, "column 'goal' is missing"), "BAD_TASK"))
            .ok());
    EXPECT_EQ(server_.Get(job).state(), v1::Job::FAILED);
    EXPECT_EQ(server_.Get(job).state_reason(), "BAD_TASK");
    EXPECT_EQ(server_.Get(job).error().code(), static_cast<int>(code));
    EXPECT_EQ(server_.Get(job).error().message(), "column 'goal' is missing");
    EXPECT_TRUE(Lost(job).empty());
  }
}

TEST_F(DispatcherTest, OtherErrorsAreTriedAgain) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  ASSERT_TRUE(Failed(worker, absl::InternalError("device-side assert")).ok());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::STARTING);
  ASSERT_EQ(Lost(job).size(), 1u);
  EXPECT_EQ(Lost(job)[0].cause(), "WORKER_ERROR");
  EXPECT_EQ(Lost(job)[0].detail(), "INTERNAL: device-side assert");
}

TEST_F(DispatcherTest, AStaleErrorDoesNotFailTheJob) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  server_.clock.Advance(seconds(31));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  ASSERT_TRUE(Failed(worker, absl::InvalidArgumentError("too late")).ok());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::STARTING);
}

TEST_F(DispatcherTest, SayingDoneWithoutResultsIsAFailure) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  for (int i = 0; i < 3; ++i) {
    worker.Call(worker.Request());
    v1::SynchronizeRequest done = worker.Request(v1::CurrentTask::DONE);
    done.set_draining(true);
    Sync(done);
    worker.Die();
    ASSERT_TRUE(server_.dispatcher->WorkerDied("w", "", "").ok());
  }
  EXPECT_EQ(server_.Get(job).state_reason(), "POISON_TASK");
  EXPECT_THAT(Lost(job)[0].detail(), HasSubstr("0 of 1 units"));
}

TEST_F(DispatcherTest, DrainGivesTheLeaseBackAndCountsAsNoFailure) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.Step();
  ASSERT_TRUE(server_.dispatcher->Drain("w", "maintenance").ok());
  EXPECT_EQ(StateOf("w"), "draining");
  const SyncOutcome drain = Recheck(worker.Request(v1::CurrentTask::RUNNING));
  EXPECT_FALSE(drain.hold);
  EXPECT_EQ(drain.response.drain().reason(), "maintenance");
  const SyncOutcome after = Sync(worker.Request(v1::CurrentTask::RELEASED));
  EXPECT_TRUE(after.response.has_drain()) << "a draining worker must get no task";
  EXPECT_TRUE(Lost(job).empty());
  EXPECT_TRUE(server_.jobs->ListLeases(job)->empty());
  EXPECT_TRUE(absl::IsNotFound(server_.dispatcher->Drain("nobody", "").status()));
  // Its successor works again.
  ASSERT_TRUE(server_.dispatcher->WorkerDied("w", "", "").ok());
  worker.Die();
  EXPECT_TRUE(worker.Step());
}

TEST_F(DispatcherTest, ATaskGivenToALeavingWorkerIsFreeAtOnceAndNoFailure) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  Sync(worker.Request());  // given a task; the worker has just been told to stop
  v1::SynchronizeRequest request = worker.Request();
  request.set_draining(true);
  EXPECT_TRUE(Sync(request).response.has_idle());
  EXPECT_TRUE(server_.jobs->ListLeases(job)->empty());
  EXPECT_TRUE(Lost(job).empty());
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

TEST_F(DispatcherTest, LongGoneWorkersAreForgotten) {
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  server_.clock.Advance(seconds(31));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  EXPECT_EQ(StateOf("w"), "lost");
  server_.clock.Advance(std::chrono::hours(2));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  EXPECT_TRUE(server_.dispatcher->Workers().empty());
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

}  // namespace
}  // namespace headcount::queue
