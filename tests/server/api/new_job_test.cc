// What of a request becomes part of a job, and what its request id stands for.

#include "server/api/new_job.h"

#include <gtest/gtest.h>

namespace headcount::server {
namespace {

v1::CreateJobRequest Request() {
  v1::CreateJobRequest request;
  request.set_request_id("6BA7B810-9DAD-41D1-80B4-00C04FD430C8");
  v1::Job& job = *request.mutable_job();
  job.set_priority(3);
  for (const char* key : {"a", "b", "c", "d"}) (*job.mutable_labels())[key] = "x";
  job.mutable_score()->mutable_workload()->set_model("tiny");
  return request;
}

TEST(NewJob, TakesSpecLabelsAndPriorityAndNothingElse) {
  v1::CreateJobRequest request = Request();
  request.mutable_job()->set_state(v1::Job::SUCCEEDED);
  request.mutable_job()->set_name("mine");
  request.mutable_job()->set_attempt(7);
  CountingIds ids;
  const store::NewJob job = MakeNewJob(request, "default", "ann", ids);
  EXPECT_EQ(job.job.name(), "projects/default/jobs/id-1");
  EXPECT_EQ(job.job.uid(), "id-2");
  EXPECT_EQ(job.job.owner(), "ann");
  EXPECT_EQ(job.job.state(), v1::Job::STATE_UNSPECIFIED);
  EXPECT_EQ(job.job.attempt(), 0);
  EXPECT_EQ(job.job.priority(), 3);
  EXPECT_EQ(job.job.labels_size(), 4);
  EXPECT_EQ(job.job.score().workload().model(), "tiny");
  EXPECT_EQ(job.request_id, "6ba7b810-9dad-41d1-80b4-00c04fd430c8");
}

TEST(NewJob, TheBodyDigestDependsOnWhatTheClientDecidesAlone) {
  const v1::Job base = Request().job();
  const std::string digest = BodyDigest("default", base);
  v1::Job same = base;
  same.set_uid("other");
  same.mutable_progress()->set_done_units(1);
  EXPECT_EQ(BodyDigest("default", same), digest);
  // Maps of the same content in another order of insertion.
  v1::Job again;
  for (const char* key : {"d", "c", "b", "a"}) (*again.mutable_labels())[key] = "x";
  again.set_priority(3);
  again.mutable_score()->mutable_workload()->set_model("tiny");
  EXPECT_EQ(BodyDigest("default", again), digest);

  v1::Job other = base;
  other.set_priority(4);
  EXPECT_NE(BodyDigest("default", other), digest);
  other = base;
  (*other.mutable_labels())["a"] = "y";
  EXPECT_NE(BodyDigest("default", other), digest);
  other = base;
  other.mutable_score()->mutable_workload()->set_model("tiny2");
  EXPECT_NE(BodyDigest("default", other), digest);
  EXPECT_NE(BodyDigest("other", base), digest);
}

TEST(NewJob, RequestIdsAreUuids) {
  EXPECT_TRUE(CheckRequestId("").ok());
  EXPECT_TRUE(CheckRequestId("6ba7b810-9dad-41d1-80b4-00c04fd430c8").ok());
  for (const char* bad :
       {"1", "6ba7b8109dad41d180b400c04fd430c8", "6ba7b810-9dad-41d1-80b4-00c04fd430c",
        "{ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-41d1-80b4000c04fd430c8"}) {
    EXPECT_EQ(CheckRequestId(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace headcount::server
