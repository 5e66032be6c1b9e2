// JobService over the wire: creation, idempotency, reading, listing, steering, deletion.

#include <gmock/gmock.h>

#include <set>

#include "tests/server/api/harness.h"
#include "tests/server/api/scripted_worker.h"

namespace headcount::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Jobs = v1::JobService::Stub;

class JobsTest : public ApiTest {
 protected:
  absl::StatusOr<v1::Job> Cancel(const std::string& name, const std::string& etag = "") {
    v1::CancelJobRequest request;
    request.set_name(name);
    request.set_etag(etag);
    return Steer(&Jobs::CancelJob, request);
  }
  absl::StatusOr<v1::Job> Pause(const std::string& name) {
    v1::PauseJobRequest request;
    request.set_name(name);
    return Steer(&Jobs::PauseJob, request);
  }
  absl::StatusOr<v1::Job> Resume(const std::string& name) {
    v1::ResumeJobRequest request;
    request.set_name(name);
    return Steer(&Jobs::ResumeJob, request);
  }
  absl::Status Delete(const std::string& name) {
    v1::DeleteJobRequest request;
    request.set_name(name);
    v1::DeleteJobResponse response;
    return Unary(*jobs_, &Jobs::DeleteJob, request, &response);
  }
  absl::StatusOr<v1::ListJobsResponse> List(const std::string& text) {
    v1::ListJobsResponse response;
    const absl::Status status =
        Unary(*jobs_, &Jobs::ListJobs, Parse<v1::ListJobsRequest>(text), &response);
    if (!status.ok()) return status;
    return response;
  }
  bool Reaches(const std::string& name, v1::Job::State state) {
    return Eventually([&] { return Get(name).state() == state; });
  }

 private:
  template <typename Request>
  absl::StatusOr<v1::Job> Steer(grpc::Status (Jobs::*method)(grpc::ClientContext*, const Request&,
                                                             v1::Job*),
                                const Request& request) {
    v1::Job job;
    const absl::Status status = Unary(*jobs_, method, request, &job);
    if (!status.ok()) return status;
    return job;
  }
};

TEST_F(JobsTest, ACreatedJobIsWhatWasAskedForAndCanBeRead) {
  const auto job = Create(R"(job {
    labels { key: "team" value: "a" } priority: 5 owner: "somebody else" uid: "mine" state: FAILED
    score { workload { model: "tiny" task { task: "pairs" limit: 3 } } } })");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->name(), StartsWith("projects/default/jobs/"));
  EXPECT_NE(job->uid(), "mine");  // only spec, labels and priority are the client's
  EXPECT_NE(job->owner(), "somebody else");
  EXPECT_EQ(job->state(), v1::Job::QUEUED);
  EXPECT_EQ(job->priority(), 5);
  EXPECT_EQ(job->labels().at("team"), "a");
  EXPECT_EQ(job->score().workload().task().limit(), 3);
  EXPECT_FALSE(job->etag().empty());
  EXPECT_GT(job->create_time().seconds(), 0);
  EXPECT_EQ(Get(job->name()).uid(), job->uid());
}

TEST_F(JobsTest, TheOwnerIsWhoTheMetadataNames) {
  Call call;
  call.context.AddMetadata(rpc::kUserMetadata, "ann");
  v1::Job job;
  ASSERT_TRUE(
      Checked(jobs_->CreateJob(&call.context, Parse<v1::CreateJobRequest>(ScoreJob()), &job)).ok());
  EXPECT_EQ(job.owner(), "ann");
  Call bad;
  bad.context.AddMetadata(rpc::kUserMetadata, "../ann");
  const absl::Status status =
      Checked(jobs_->CreateJob(&bad.context, Parse<v1::CreateJobRequest>(ScoreJob()), &job));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), rpc::kUserMetadata);
}

TEST_F(JobsTest, ValidateOnlyStoresNothing) {
  const auto job = Create(ScoreJob() +
                          " validate_only: true "
                          "request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430c8\"");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "");
  EXPECT_EQ(job->state(), v1::Job::QUEUED);
  EXPECT_EQ(job->score().workload().model(), "tiny");
  EXPECT_EQ(List("")->jobs_size(), 0);
  EXPECT_EQ(Create(R"(job { score { workload { model: "none" task { task: "pairs" } } } }
                      validate_only: true)")
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  // The id is still free.
  EXPECT_TRUE(Create(SweepJob() + " request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430c8\"").ok());
}

TEST_F(JobsTest, TwentyThreadsWithOneRequestIdGetOneJob) {
  std::vector<std::string> names(20);
  std::vector<std::thread> threads;
  for (std::string& name : names) {
    threads.emplace_back([&] {
      const auto job = Create(SweepJob() + " request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430c8\"");
      ASSERT_TRUE(job.ok()) << job.status();
      name = job->name();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 1u);
  EXPECT_EQ(List("")->jobs_size(), 1);
  // Upper case is the same UUID; another body is another thing.
  EXPECT_EQ(Create(SweepJob() + " request_id: \"6BA7B810-9DAD-41D1-80B4-00C04FD430C8\"")->name(),
            names[0]);
  const absl::Status reused =
      Create(ScoreJob() + " request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430c8\"").status();
  EXPECT_EQ(reused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(reused), "REQUEST_ID_REUSED");
}

TEST_F(JobsTest, AFullQueueRefusesExactlyWhatIsTooMuch) {
  server_.reset();
  config_.max_queued_jobs = 5;
  StartServer();
  int refused = 0;
  for (int i = 0; i < 15; ++i) {
    const absl::Status status = Create(ScoreJob()).status();
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  }
  EXPECT_EQ(refused, 10);
}

TEST_F(JobsTest, ListingPagesThroughAllOnceNewestFirst) {
  std::vector<std::string> created;
  for (int i = 0; i < 7; ++i) {
    created.push_back(
        Create("job { labels { key: \"n\" value: \"" + std::to_string(i % 2) +
               "\" } score { workload { model: \"tiny\" task { task: \"pairs\" } } } }")
            ->name());
  }
  std::vector<std::string> listed;
  std::string token;
  do {
    const auto page = List("page_size: 3 page_token: \"" + token + "\"");
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->jobs_size(), 3);
    for (const v1::Job& job : page->jobs()) listed.push_back(job.name());
    token = page->next_page_token();
  } while (!token.empty());
  std::reverse(created.begin(), created.end());
  EXPECT_EQ(listed, created);

  EXPECT_EQ(List(R"(filter { labels { key: "n" value: "1" } })")->jobs_size(), 3);
  EXPECT_EQ(List("filter { states: SUCCEEDED }")->jobs_size(), 0);
  EXPECT_EQ(List("filter { owner: \"nobody\" }")->jobs_size(), 0);
  EXPECT_EQ(List("page_size: 100000")->jobs_size(), 7);
}

TEST_F(JobsTest, PageTokensAreBoundToTheirRequest) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Create(ScoreJob()).ok());
  const std::string token = List("page_size: 1")->next_page_token();
  for (const std::string& request :
       {"page_token: \"" + token + "\" filter { states: QUEUED }",
        "page_token: \"" + token + "\" filter { owner: \"x\" }",
        std::string("page_token: \"garbage\""), "page_token: \"A" + token + "\""}) {
    const absl::Status status = List(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << request;
    EXPECT_EQ(ReasonOf(status), "PAGE_TOKEN_MISMATCH");
  }
  EXPECT_EQ(FieldOf(List("page_size: -1").status()), "page_size");
  EXPECT_EQ(FieldOf(List("filter { states: 77 }").status()), "filter.states[0]");
}

TEST_F(JobsTest, CancellingStopsAJobAndMayBeRepeated) {
  const std::string name = Create(ScoreJob())->name();
  const auto cancelled = Cancel(name);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  ASSERT_TRUE(Reaches(name, v1::Job::CANCELLED));
  EXPECT_TRUE(Cancel(name).ok());
  EXPECT_EQ(Pause(name).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(Resume(name).status()), "JOB_TERMINAL");
}

TEST_F(JobsTest, AnEndedJobCannotBeCancelled) {
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  const std::string name = Create(ScoreJob())->name();
  ASSERT_TRUE(Reaches(name, v1::Job::SUCCEEDED));
  const absl::Status status = Cancel(name).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "JOB_TERMINAL");
  EXPECT_THAT(std::string(status.message()), HasSubstr("SUCCEEDED"));
}

TEST_F(JobsTest, APausedJobGetsNoWorkerUntilItIsResumed) {
  const std::string name = Create(ScoreJob())->name();
  ASSERT_TRUE(Pause(name).ok());
  EXPECT_EQ(Pause(name)->state(), v1::Job::PAUSED);
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  // A second job passes the paused one.
  const std::string other = Create(ScoreJob())->name();
  ASSERT_TRUE(Reaches(other, v1::Job::SUCCEEDED));
  EXPECT_EQ(Get(name).state(), v1::Job::PAUSED);
  ASSERT_TRUE(Resume(name).ok());
  EXPECT_TRUE(Reaches(name, v1::Job::SUCCEEDED));
}

TEST_F(JobsTest, StaleEtagsAreRefused) {
  const v1::Job job = *Create(ScoreJob());
  ASSERT_TRUE(Pause(job.name()).ok());
  const absl::Status stale = Cancel(job.name(), job.etag()).status();
  EXPECT_EQ(stale.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(stale), "ETAG_MISMATCH");
  EXPECT_TRUE(Cancel(job.name(), Get(job.name()).etag()).ok());
}

TEST_F(JobsTest, OnlyEndedJobsAreDeleted) {
  const std::string name = Create(ScoreJob())->name();
  const absl::Status early = Delete(name);
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(early), "JOB_NOT_TERMINAL");
  ASSERT_TRUE(Cancel(name).ok());
  ASSERT_TRUE(Reaches(name, v1::Job::CANCELLED));
  ASSERT_TRUE(Delete(name).ok());
  EXPECT_EQ(ReasonOf(Delete(name)), "JOB_NOT_FOUND");
  EXPECT_EQ(List("")->jobs_size(), 0);
}

TEST_F(JobsTest, ProgressAndProvenanceAreFilledIn) {
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  const std::string name = Create(SweepJob())->name();
  ASSERT_TRUE(Reaches(name, v1::Job::SUCCEEDED));
  const v1::Job job = Get(name);
  EXPECT_EQ(job.progress().done_units(), job.progress().total_units());
  EXPECT_GT(job.progress().total_rows(), 24);
  EXPECT_EQ(job.progress().remaining_seconds(), 0);
  EXPECT_EQ(job.provenance().model_digest().size(), 64u);
  EXPECT_EQ(job.provenance().samples_per_unit(), 4);
  EXPECT_FALSE(job.provenance().server_version().empty());
}

}  // namespace
}  // namespace headcount::server
