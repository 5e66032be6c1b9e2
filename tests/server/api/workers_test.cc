// WorkerService and AdminService over the wire: held calls, manifests, reports that are wrong in
// every way, fencing, draining.

#include <gmock/gmock.h>

#include "tests/server/api/harness.h"
#include "tests/server/api/scripted_worker.h"

namespace headcount::server {
namespace {

using ::testing::HasSubstr;

class WorkersTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    worker_ = std::make_unique<ScriptedWorker>(server_->endpoints().worker_listen);
  }

  // The next task; fails the test when there is none.
  v1::Task Take() {
    v1::SynchronizeResponse response;
    const absl::Status status = worker_->Synchronize(worker_->State(), &response);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(response.has_run()) << response.ShortDebugString();
    return response.run();
  }
  v1::Task TakeAfter(const v1::Task& done) {
    v1::SynchronizeRequest request = worker_->State();
    ScriptedWorker::SetTask(done, v1::CurrentTask::DONE, &request);
    v1::SynchronizeResponse response;
    const absl::Status status = worker_->Synchronize(request, &response);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(response.has_run()) << response.ShortDebugString();
    return response.run();
  }
  absl::Status ReportUnit(const v1::Task& task, int index, v1::ReportResultsResponse* response) {
    const std::string bytes = worker_->Chunk(task, index);
    const v1::ReportHeader header = worker_->Header(task, index, bytes);
    return worker_->Report(&header, bytes, response);
  }

  std::unique_ptr<ScriptedWorker> worker_;
};

TEST_F(WorkersTest, AHeldCallIsAnsweredByTheJobThatArrives) {
  v1::SynchronizeResponse response;
  absl::Status status;
  std::atomic<bool> answered = false;
  std::thread held([&] {
    status = worker_->Synchronize(worker_->State(), &response);
    answered = true;
  });
  ASSERT_TRUE(Eventually([&] { return server_->dispatcher().Workers().size() == 1; }));
  EXPECT_FALSE(answered);
  const std::string name = Create(ScoreJob())->name();
  held.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.run().job(), name);
  EXPECT_EQ(response.run().stage(), "prepare");
  EXPECT_TRUE(response.has_next_sync_in());
}

TEST_F(WorkersTest, AHeldCallEndsByItselfInTime) {
  server_.reset();
  config_.lease = std::chrono::seconds(3);  // calls are held for a third of it at most
  StartServer();
  ScriptedWorker worker(server_->endpoints().worker_listen);
  v1::SynchronizeResponse response;
  const auto began = Clock::System().Monotonic();
  ASSERT_TRUE(worker.Synchronize(worker.State(), &response).ok());
  EXPECT_TRUE(response.has_idle());
  EXPECT_GE(Clock::System().Monotonic() - began, std::chrono::milliseconds(500));
}

TEST_F(WorkersTest, AServerThatStopsLetsHeldCallsGo) {
  absl::Status status;
  std::thread held([&] {
    v1::SynchronizeResponse response;
    status = worker_->Synchronize(worker_->State(), &response);
  });
  ASSERT_TRUE(Eventually([&] { return server_->dispatcher().Workers().size() == 1; }));
  server_->Stop(std::chrono::seconds(20));
  held.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(WorkersTest, ASecondProcessWithTheSameIdIsRefused) {
  Create(ScoreJob()).IgnoreError();
  Take();
  v1::SynchronizeRequest other = worker_->State();
  other.set_instance("another process");
  v1::SynchronizeResponse response;
  const absl::Status status = worker_->Synchronize(other, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(status), "WORKER_ID_IN_USE");
}

TEST_F(WorkersTest, BadSynchronizeRequests) {
  v1::SynchronizeResponse response;
  v1::SynchronizeRequest request = worker_->State();
  request.set_worker("");
  EXPECT_EQ(worker_->Synchronize(request, &response).code(), absl::StatusCode::kInvalidArgument);
  request = worker_->State();
  request.set_instance("");
  EXPECT_EQ(worker_->Synchronize(request, &response).code(), absl::StatusCode::kInvalidArgument);
  request = worker_->State();
  request.set_numerics_version(catalog::kNumericsVersion + 1);
  const absl::Status status = worker_->Synchronize(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "NUMERICS_VERSION");
}

TEST_F(WorkersTest, ManifestSlicesAreThoseOfTheManifest) {
  ASSERT_TRUE(Create(ScoreJob()).ok());
  const v1::Task prepare = Take();
  v1::ReportResultsResponse response;
  ASSERT_TRUE(ReportUnit(prepare, 0, &response).ok());
  EXPECT_EQ(response.outcome(), v1::ReportResultsResponse::STORED);
  const v1::Task score = TakeAfter(prepare);
  ASSERT_EQ(score.stage(), "score");

  const auto slice = [&](const std::string& digest, int64_t first, int64_t count,
                         absl::Status* status) {
    Call call;
    v1::GetManifestSliceRequest request;
    request.set_digest(digest);
    request.set_first_sample(first);
    request.set_samples(count);
    auto reader = worker_->stub().GetManifestSlice(&call.context, request);
    std::vector<std::string> ids;
    v1::ManifestSlice piece;
    while (reader->Read(&piece)) {
      for (const v1::ManifestSample& sample : piece.samples()) ids.push_back(sample.id());
    }
    *status = Checked(reader->Finish());
    return ids;
  };
  absl::Status status;
  const std::vector<std::string> ids = slice(score.manifest_digest(), 3, 5, &status);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(ids.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ids[i], worker_->manifest().samples(3 + i).id());
  slice(score.manifest_digest(), 20, 5, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  slice(score.manifest_digest(), -1, 5, &status);
  EXPECT_FALSE(status.ok());
  slice(std::string(64, '0'), 0, 1, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  slice("../../etc/passwd", 0, 1, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

TEST_F(WorkersTest, ReportsThatAreWrongChangeNothingAndTheRightOneIsStoredOnce) {
  const std::string name = Create(ScoreJob())->name();
  const v1::Task task = Take();
  const std::string bytes = worker_->Chunk(task, 0);
  const v1::ReportHeader good = worker_->Header(task, 0, bytes);
  v1::ReportResultsResponse response;
  const auto report = [&](const v1::ReportHeader& header, const std::string& data,
                          size_t piece = rpc::kPieceBytes) {
    return worker_->Report(&header, data, &response, piece);
  };
  EXPECT_EQ(worker_->Report(nullptr, bytes, &response).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker_->Report(nullptr, "", &response).code(), absl::StatusCode::kInvalidArgument);

  v1::ReportHeader header = good;
  header.set_crc32c(good.crc32c() + 1);
  EXPECT_EQ(report(header, bytes).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(report(good, bytes.substr(1)).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(report(good, bytes + "x").code(), absl::StatusCode::kDataLoss);
  std::string flipped = bytes;
  flipped[bytes.size() / 2] ^= 1;
  EXPECT_EQ(report(good, flipped).code(), absl::StatusCode::kDataLoss);

  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    header = good;
    header.set_bytes(size);
    const absl::Status status = report(header, bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), "header.bytes");
  }
  header = good;
  header.set_bytes((1 << 20) + 1);
  EXPECT_EQ(FieldOf(report(header, std::string((1 << 20) + 1, 'x'), (1 << 20) + 1)), "data");

  header = good;
  header.set_attempt(good.attempt() + 1);
  EXPECT_EQ(report(header, bytes).code(), absl::StatusCode::kAborted);
  header = good;
  header.set_task("projects/default/jobs/none/tasks/1");
  EXPECT_FALSE(report(header, bytes).ok());
  header = good;
  header.set_job("projects/default/jobs/none");
  EXPECT_FALSE(report(header, bytes).ok());
  header = good;
  header.set_stage("nonsense");
  EXPECT_FALSE(report(header, bytes).ok());
  header = good;
  header.set_unit(77);
  EXPECT_FALSE(report(header, bytes).ok());

  EXPECT_EQ(Get(name).progress().done_units(), 0);
  // Also in small pieces.
  ASSERT_TRUE(report(good, bytes, 100).ok());
  EXPECT_EQ(response.outcome(), v1::ReportResultsResponse::STORED);
  ASSERT_TRUE(report(good, bytes).ok());
  EXPECT_EQ(response.outcome(), v1::ReportResultsResponse::DUPLICATE);
  EXPECT_EQ(Get(name).progress().done_units(), 1);
}

TEST_F(WorkersTest, AWorkerWhoseLeaseEndedIsFencedOff) {
  const std::string name = Create(ScoreJob())->name();
  const v1::Task task = Take();
  ASSERT_TRUE(server_->dispatcher().WorkerDied("scripted", "", "killed").ok());
  v1::ReportResultsResponse response;
  const absl::Status late = ReportUnit(task, 0, &response);
  EXPECT_EQ(late.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(late), "LEASE_LOST");
  // Another one gets the work, with a higher attempt.
  ScriptedWorker other(server_->endpoints().worker_listen, "other");
  v1::SynchronizeResponse taken;
  ASSERT_TRUE(other.Synchronize(other.State(), &taken).ok());
  EXPECT_EQ(taken.run().job(), name);
  EXPECT_GT(taken.run().attempt(), task.attempt());
}

TEST_F(WorkersTest, ACancelReachesAWorkerThatIsHeld) {
  const std::string name = Create(ScoreJob())->name();
  const v1::Task task = Take();
  v1::SynchronizeResponse response;
  absl::Status status;
  std::thread held([&] {
    v1::SynchronizeRequest request = worker_->State();
    ScriptedWorker::SetTask(task, v1::CurrentTask::RUNNING, &request);
    status = worker_->Synchronize(request, &response);
  });
  ASSERT_TRUE(Eventually([&] { return Get(name).state() == v1::Job::RUNNING; }));
  v1::CancelJobRequest cancel;
  cancel.set_name(name);
  v1::Job job;
  ASSERT_TRUE(Unary(*jobs_, &v1::JobService::Stub::CancelJob, cancel, &job).ok());
  held.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.cancel().task(), task.name());
  v1::SynchronizeRequest released = worker_->State();
  ScriptedWorker::SetTask(task, v1::CurrentTask::RELEASED, &released);
  std::thread next([&] {
    v1::SynchronizeResponse idle;
    worker_->Synchronize(released, &idle).IgnoreError();
  });
  EXPECT_TRUE(Eventually([&] { return Get(name).state() == v1::Job::CANCELLED; }));
  server_->Stop(std::chrono::seconds(20));
  next.join();
}

TEST_F(WorkersTest, AdminListsAndDrainsWorkers) {
  ASSERT_TRUE(Create(ScoreJob()).ok());
  Take();
  v1::ListWorkersResponse listed;
  ASSERT_TRUE(
      Unary(*admin_, &v1::AdminService::Stub::ListWorkers, v1::ListWorkersRequest(), &listed).ok());
  ASSERT_EQ(listed.workers_size(), 1);
  EXPECT_EQ(listed.workers(0).worker(), "scripted");

  v1::DrainWorkerRequest drain;
  v1::WorkerInfo info;
  drain.set_worker("scripted");
  ASSERT_TRUE(Unary(*admin_, &v1::AdminService::Stub::DrainWorker, drain, &info).ok());
  EXPECT_EQ(info.state(), "draining");
  v1::SynchronizeResponse response;
  ASSERT_TRUE(worker_->Synchronize(worker_->State(), &response).ok());
  EXPECT_TRUE(response.has_drain()) << response.ShortDebugString();

  drain.set_worker("nobody");
  EXPECT_EQ(Unary(*admin_, &v1::AdminService::Stub::DrainWorker, drain, &info).code(),
            absl::StatusCode::kNotFound);
  drain.set_worker("");
  EXPECT_EQ(FieldOf(Unary(*admin_, &v1::AdminService::Stub::DrainWorker, drain, &info)), "worker");
  v1::SetQuotaResponse quota;
  EXPECT_EQ(Unary(*admin_, &v1::AdminService::Stub::SetQuota, v1::SetQuotaRequest(), &quota).code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(WorkersTest, TheTwoListenersServeTheirOwnMethodsAlone) {
  v1::Job job;
  Call call;
  auto jobs_on_workers = v1::JobService::NewStub(worker_channel_);
  EXPECT_EQ(Checked(jobs_on_workers->GetJob(&call.context, {}, &job)).code(),
            absl::StatusCode::kUnimplemented);
  Call other;
  auto admin_on_clients = v1::AdminService::NewStub(channel_);
  v1::ListWorkersResponse listed;
  EXPECT_EQ(Checked(admin_on_clients->ListWorkers(&other.context, {}, &listed)).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace headcount::server
