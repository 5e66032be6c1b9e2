// How leases end, and what each end means for the job. Time is a fake clock's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.h"
#include "common/format/rpc_status.h"
#include "server/queue/dispatcher.h"
#include "tests/server/queue/dispatcher_fixture.h"

namespace headcount::queue {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class DispatcherLeases : public DispatcherFixture {
 protected:
  absl::Status Failed(FakeWorker& worker, const absl::Status& error) {
    v1::SynchronizeRequest request = worker.Request(v1::CurrentTask::FAILED);
    *request.mutable_task()->mutable_error() = format::ToRpcStatus(error);
    request.set_draining(true);  // so that it is not given the next task at once
    return server_.dispatcher->Synchronize(request).status();
  }
};

TEST_F(DispatcherLeases, RenewingKeepsTheLeaseAndSilenceLosesIt) {
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

TEST_F(DispatcherLeases, ACancelledJobEndsThoughItsWorkerDied) {
  const std::string job = Prepared("a");
  FakeWorker worker(server_, "w", 6);
  worker.Step();
  server_.SetState(job, {v1::Job::STARTING, v1::Job::RUNNING}, v1::Job::CANCELLING);
  server_.clock.Advance(seconds(31));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::CANCELLED);
}

TEST_F(DispatcherLeases, AnIdIsFreeAgainOnceItsProcessIsSilent) {
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

TEST_F(DispatcherLeases, ADeadWorkersUnitsAreFreeAtOnce) {
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

TEST_F(DispatcherLeases, AUnitThatKillsThreeWorkersFailsItsJobAlone) {
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

TEST_F(DispatcherLeases, ErrorsThatNoRetryHelpsFailTheJobAtOnce) {
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

TEST_F(DispatcherLeases, OtherErrorsAreTriedAgain) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  ASSERT_TRUE(Failed(worker, absl::InternalError("device-side assert")).ok());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::STARTING);
  ASSERT_EQ(Lost(job).size(), 1u);
  EXPECT_EQ(Lost(job)[0].cause(), "WORKER_ERROR");
  EXPECT_EQ(Lost(job)[0].detail(), "INTERNAL: device-side assert");
}

TEST_F(DispatcherLeases, AStaleErrorDoesNotFailTheJob) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  server_.clock.Advance(seconds(31));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  ASSERT_TRUE(Failed(worker, absl::InvalidArgumentError("too late")).ok());
  EXPECT_EQ(server_.Get(job).state(), v1::Job::STARTING);
}

TEST_F(DispatcherLeases, SayingDoneWithoutResultsIsAFailure) {
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

TEST_F(DispatcherLeases, DrainGivesTheLeaseBackAndCountsAsNoFailure) {
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

TEST_F(DispatcherLeases, ATaskGivenToALeavingWorkerIsFreeAtOnceAndNoFailure) {
  const std::string job = server_.Create("a", kScore);
  FakeWorker worker(server_, "w");
  Sync(worker.Request());  // given a task; the worker has just been told to stop
  v1::SynchronizeRequest request = worker.Request();
  request.set_draining(true);
  EXPECT_TRUE(Sync(request).response.has_idle());
  EXPECT_TRUE(server_.jobs->ListLeases(job)->empty());
  EXPECT_TRUE(Lost(job).empty());
}

TEST_F(DispatcherLeases, LongGoneWorkersAreForgotten) {
  FakeWorker worker(server_, "w");
  worker.Call(worker.Request());
  server_.clock.Advance(seconds(31));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  EXPECT_EQ(StateOf("w"), "lost");
  server_.clock.Advance(std::chrono::hours(2));
  ASSERT_TRUE(server_.dispatcher->Tick().ok());
  EXPECT_TRUE(server_.dispatcher->Workers().empty());
}

// A process that dies takes the work of both lanes along. Only the unit that does it fails its job.
TEST_F(DispatcherLeases, APoisonUnitDoesNotFailTheJobThatIsPreparedBesideIt) {
  const std::string poisoned = Prepared("poisoned");
  const std::string fine = server_.Create(
      "fine", "score { workload { model: 'tiny' requests { requests { context: 'The' } } } }");
  FakeWorker device(server_, "w", 6);
  FakeWorker preparing(server_, "w/prepare", 6);
  device.lane = v1::SynchronizeRequest::UNITS;
  preparing.lane = v1::SynchronizeRequest::PREPARE;
  device.process = preparing.process = "process";
  for (int i = 0; i < 10 && server_.Get(poisoned).state() != v1::Job::FAILED; ++i) {
    preparing.Call(preparing.Request());
    device.Call(device.Request());
    if (!device.task().has_value() || device.task()->job() != poisoned) {
      while (device.Step() && device.task().has_value() && device.task()->job() != poisoned) {
      }
    }
    if (i == 0) {
      ASSERT_TRUE(preparing.task().has_value());
    } else {
      EXPECT_FALSE(preparing.task().has_value()) << "nothing runs beside what was lost";
    }
    ASSERT_TRUE(server_.dispatcher->WorkerDied("w", "", "killed by signal 11").ok());
    device.Die();
    preparing.Die();
  }
  EXPECT_EQ(server_.Get(poisoned).state_reason(), "POISON_TASK");
  EXPECT_EQ(Lost(poisoned).size(), 3u);
  EXPECT_EQ(Lost(fine).size(), 1u) << "freed at once with its process";
  while (device.Step() || preparing.Step()) {
  }
  EXPECT_EQ(server_.Get(fine).state(), v1::Job::SUCCEEDED);
}

}  // namespace
}  // namespace headcount::queue
