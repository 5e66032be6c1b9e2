// Jobs: creation, reading, paging, states, deletion. See conformance.h.

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/store/conformance.h"

namespace headcount::store {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Names(const JobPage& page) {
  std::vector<std::string> names;
  for (const v1::Job& job : page.jobs) names.push_back(job.name().substr(22));
  return names;
}

TEST_P(JobStoreConformance, ACreatedJobIsReadBackWhole) {
  NewJob request = Request("a");
  request.job.set_parent("projects/default/jobs/p");
  request.job.set_priority(-7);
  (*request.job.mutable_labels())["team"] = "x";
  request.job.mutable_expire_time()->set_seconds(1'800'000'000);
  request.job.mutable_sweep()->add_scores("entropy");
  auto created = store_->CreateJob(request, 10);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(created->created);
  const v1::Job job = Get("projects/default/jobs/a");
  EXPECT_EQ(job.SerializeAsString(), created->job.SerializeAsString());
  EXPECT_EQ(job.uid(), "uid-a");
  EXPECT_EQ(job.owner(), "ann");
  EXPECT_EQ(job.parent(), "projects/default/jobs/p");
  EXPECT_EQ(job.priority(), -7);
  EXPECT_EQ(job.labels().at("team"), "x");
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
  EXPECT_EQ(job.attempt(), 0);
  EXPECT_EQ(job.failures(), 0);
  EXPECT_FALSE(job.etag().empty());
  EXPECT_EQ(job.create_time().seconds(), 1'760'000'000);
  EXPECT_EQ(job.expire_time().seconds(), 1'800'000'000);
  EXPECT_FALSE(job.has_start_time());
  EXPECT_FALSE(job.has_end_time());
  EXPECT_FALSE(job.has_error());
  EXPECT_FALSE(job.has_provenance());
  EXPECT_EQ(job.sweep().scores(0), "entropy");
  EXPECT_LT(job.progress().remaining_seconds(), 0);
  const std::vector<v1::JobEvent> events = Events(job.name());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence(), 1);
  EXPECT_EQ(events[0].time().seconds(), 1'760'000'000);
  EXPECT_EQ(events[0].state_changed().from(), v1::Job::STATE_UNSPECIFIED);
  EXPECT_EQ(events[0].state_changed().to(), v1::Job::QUEUED);
}

TEST_P(JobStoreConformance, TheSameRequestGivesTheSameJob) {
  NewJob request = Request("a");
  request.request_id = "r1";
  request.body_digest = "body";
  ASSERT_TRUE(store_->CreateJob(request, 1).ok());
  ASSERT_TRUE(Move(request.job.name(), {v1::Job::QUEUED}, v1::Job::PAUSED).ok());
  NewJob again = Request("b");  // the server makes a new name for every call
  again.request_id = "r1";
  again.body_digest = "body";
  auto second = store_->CreateJob(again, 1);  // and a full queue does not matter
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->created);
  EXPECT_EQ(second->job.name(), "projects/default/jobs/a");
  EXPECT_EQ(second->job.state(), v1::Job::PAUSED);  // as it is now
  EXPECT_EQ(store_->ListJobs({"default"}, "", 10)->jobs.size(), 1u);
}

TEST_P(JobStoreConformance, TheSameRequestIdWithAnotherBodyIsRefused) {
  NewJob request = Request("a");
  request.request_id = "r1";
  request.body_digest = "body";
  ASSERT_TRUE(store_->CreateJob(request, 10).ok());
  NewJob other = Request("b");
  other.request_id = "r1";
  other.body_digest = "another";
  EXPECT_EQ(Refusal(store_->CreateJob(other, 10).status()), "ALREADY_EXISTS REQUEST_ID_REUSED");
  NewJob owners = Request("c", "bob");  // another owner's ids are his own
  owners.request_id = "r1";
  owners.body_digest = "another";
  EXPECT_TRUE(store_->CreateJob(owners, 10)->created);
  NewJob without = Request("d");
  EXPECT_TRUE(store_->CreateJob(without, 10)->created);
  EXPECT_TRUE(store_->CreateJob(Request("e"), 10)->created);
}

TEST_P(JobStoreConformance, TwentyThreadsWithOneRequestIdMakeOneJob) {
  std::vector<std::string> names(20);
  std::atomic<int> created = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&, i] {
      NewJob request = Request(absl::StrCat("j", i));
      request.request_id = "r1";
      request.body_digest = "body";
      auto job = store_->CreateJob(request, 1000);
      if (!job.ok()) return;
      names[i] = job->job.name();
      created += job->created;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, 1);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 1u);
  EXPECT_EQ(store_->ListJobs({"default"}, "", 100)->jobs.size(), 1u);
}

TEST_P(JobStoreConformance, ADeletedJobsRequestAndNameAreNotUsedAgain) {
  NewJob request = Request("a");
  request.request_id = "r1";
  request.body_digest = "body";
  ASSERT_TRUE(store_->CreateJob(request, 10).ok());
  EXPECT_EQ(Refusal(store_->CreateJob(Request("a"), 10).status()), "ALREADY_EXISTS NAME_TAKEN");
  ASSERT_TRUE(Move(request.job.name(), {v1::Job::QUEUED}, v1::Job::CANCELLED).ok());
  ASSERT_EQ(store_->DeleteJob(request.job.name(), ""), absl::OkStatus());
  EXPECT_EQ(Refusal(store_->CreateJob(request, 10).status()), "NOT_FOUND JOB_DELETED");
  EXPECT_EQ(Refusal(store_->CreateJob(Request("a"), 10).status()), "ALREADY_EXISTS NAME_TAKEN");
}

TEST_P(JobStoreConformance, TheQueueHasALimitOfOpenJobs) {
  ASSERT_TRUE(store_->CreateJob(Request("a"), 2).ok());
  ASSERT_TRUE(store_->CreateJob(Request("b"), 2).ok());
  EXPECT_EQ(Refusal(store_->CreateJob(Request("c"), 2).status()), "RESOURCE_EXHAUSTED QUEUE_FULL");
  ASSERT_TRUE(Move("projects/default/jobs/a", {v1::Job::QUEUED}, v1::Job::CANCELLED).ok());
  EXPECT_TRUE(store_->CreateJob(Request("c"), 2).ok());
}

TEST_P(JobStoreConformance, WhatIsNotThereIsNotFound) {
  const std::string none = "projects/default/jobs/none";
  EXPECT_EQ(Refusal(store_->GetJob(none).status()), "NOT_FOUND JOB_NOT_FOUND");
  EXPECT_TRUE(absl::IsNotFound(Move(none, {v1::Job::QUEUED}, v1::Job::PAUSED).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->SetProvenance(none, {})));
  EXPECT_TRUE(absl::IsNotFound(store_->DeleteJob(none, "")));
  EXPECT_TRUE(absl::IsNotFound(Plan(none, Stage::kScore, 1)));
  EXPECT_TRUE(absl::IsNotFound(store_->GetStage(none, Stage::kScore).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->ListStages(none).status()));
  EXPECT_TRUE(absl::IsNotFound(Take(none, 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->ListLeases(none).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->ListChunks(none, Stage::kScore, 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->AppendEvent(none, {}, "").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->ReadEvents(none, 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->LastSequence(none).status()));
}

TEST_P(JobStoreConformance, PagesGoFromNewToOldWithoutGapsWhileJobsComeAndGo) {
  for (int i = 0; i < 7; ++i) Create(absl::StrCat("j", i));
  auto page = store_->ListJobs({"default"}, "", 3);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(Names(*page), ElementsAre("j6", "j5", "j4"));
  EXPECT_TRUE(page->more);
  // The last job of the page goes, a new one comes: neither moves the next page.
  ASSERT_TRUE(Move("projects/default/jobs/j4", {v1::Job::QUEUED}, v1::Job::CANCELLED).ok());
  ASSERT_EQ(store_->DeleteJob("projects/default/jobs/j4", ""), absl::OkStatus());
  Create("j7");
  page = store_->ListJobs({"default"}, "projects/default/jobs/j4", 3);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(Names(*page), ElementsAre("j3", "j2", "j1"));
  EXPECT_TRUE(page->more);
  page = store_->ListJobs({"default"}, "projects/default/jobs/j1", 3);
  EXPECT_THAT(Names(*page), ElementsAre("j0"));
  EXPECT_FALSE(page->more);
  EXPECT_EQ(Refusal(store_->ListJobs({"default"}, "projects/default/jobs/none", 3).status()),
            "INVALID_ARGUMENT INVALID_PAGE_TOKEN");
}

TEST_P(JobStoreConformance, FiltersHoldTogether) {
  NewJob a = Request("a");
  (*a.job.mutable_labels())["team"] = "x";
  (*a.job.mutable_labels())["run"] = "1";
  ASSERT_TRUE(store_->CreateJob(a, 10).ok());
  NewJob b = Request("b");
  (*b.job.mutable_labels())["team"] = "x";
  ASSERT_TRUE(store_->CreateJob(b, 10).ok());
  Create("c", "bob");
  NewJob elsewhere = Request("d");
  elsewhere.job.set_name("projects/other/jobs/d");
  ASSERT_TRUE(store_->CreateJob(elsewhere, 10).ok());
  ASSERT_TRUE(Move("projects/default/jobs/b", {v1::Job::QUEUED}, v1::Job::PAUSED).ok());

  auto list = [&](const v1::JobFilter& filter) {
    auto page = store_->ListJobs({"default", filter}, "", 10);
    EXPECT_TRUE(page.ok()) << page.status();
    return Names(*page);
  };
  v1::JobFilter filter;
  EXPECT_THAT(list(filter), ElementsAre("c", "b", "a"));
  filter.set_owner("ann");
  EXPECT_THAT(list(filter), ElementsAre("b", "a"));
  filter.add_states(v1::Job::QUEUED);
  filter.add_states(v1::Job::FAILED);
  EXPECT_THAT(list(filter), ElementsAre("a"));
  for (int i = 0; i < 100'000; ++i) filter.add_states(v1::Job::QUEUED);
  filter.add_states(static_cast<v1::Job::State>(1000));  // of a later version
  EXPECT_THAT(list(filter), ElementsAre("a"));
  filter.clear_states();
  filter.add_states(static_cast<v1::Job::State>(1000));
  EXPECT_THAT(list(filter), ElementsAre());
  filter.clear_states();
  (*filter.mutable_labels())["team"] = "x";
  EXPECT_THAT(list(filter), ElementsAre("b", "a"));
  (*filter.mutable_labels())["run"] = "1";
  EXPECT_THAT(list(filter), ElementsAre("a"));
  (*filter.mutable_labels())["run"] = "2";
  EXPECT_THAT(list(filter), ElementsAre());
  for (int i = 0; i < 5'000; ++i) (*filter.mutable_labels())[absl::StrCat("label", i)] = "x";
  EXPECT_THAT(list(filter), ElementsAre());
  filter.clear_owner();
  filter.clear_labels();
  EXPECT_EQ(store_->ListJobs({"other", filter}, "", 10)->jobs.size(), 1u);
}

TEST_P(JobStoreConformance, AStateChangesOnlyFromTheStatesNamed) {
  const std::string job = Create("a").name();
  EXPECT_EQ(Refusal(Move(job, {v1::Job::RUNNING, v1::Job::PAUSED}, v1::Job::QUEUED).status()),
            "FAILED_PRECONDITION JOB_STATE");
  EXPECT_EQ(Events(job).size(), 1u);
  clock_.Advance(std::chrono::seconds(5));
  auto running = Move(job, {v1::Job::QUEUED, v1::Job::STARTING}, v1::Job::RUNNING);
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_EQ(running->state(), v1::Job::RUNNING);
  EXPECT_EQ(running->state_reason(), "TEST");
  EXPECT_EQ(running->start_time().seconds(), 1'760'000'005);
  EXPECT_EQ(running->update_time().seconds(), 1'760'000'005);
  // To the state it is in: only where that is allowed, and then nothing happens.
  EXPECT_EQ(Refusal(Move(job, {v1::Job::STARTING}, v1::Job::RUNNING).status()),
            "FAILED_PRECONDITION JOB_STATE");
  auto same = Move(job, {v1::Job::RUNNING}, v1::Job::RUNNING);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->etag(), running->etag());
  EXPECT_EQ(Events(job).size(), 2u);

  clock_.Advance(std::chrono::seconds(5));
  google::rpc::Status error;
  error.set_code(13);
  error.set_message("task killed three workers");
  auto failed = store_->UpdateState({.job = job,
                                     .from = {v1::Job::RUNNING},
                                     .to = v1::Job::FAILED,
                                     .reason = "POISON_TASK",
                                     .error = error});
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->error().message(), "task killed three workers");
  EXPECT_EQ(failed->start_time().seconds(), 1'760'000'005);
  EXPECT_EQ(failed->end_time().seconds(), 1'760'000'010);
  const v1::JobEvent last = Events(job).back();
  EXPECT_EQ(last.sequence(), 3);
  EXPECT_EQ(last.state_changed().from(), v1::Job::RUNNING);
  EXPECT_EQ(last.state_changed().to(), v1::Job::FAILED);
  EXPECT_EQ(last.state_changed().reason(), "POISON_TASK");
  EXPECT_EQ(last.state_changed().error().code(), 13);
  EXPECT_EQ(Refusal(Move(job, {v1::Job::RUNNING}, v1::Job::CANCELLING).status()),
            "FAILED_PRECONDITION JOB_TERMINAL");
}

TEST_P(JobStoreConformance, AnEtagHoldsUntilTheJobChanges) {
  const v1::Job job = Create("a");
  StateChange change{
      .job = job.name(), .from = {v1::Job::QUEUED}, .to = v1::Job::PAUSED, .etag = job.etag()};
  auto paused = store_->UpdateState(change);
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_NE(paused->etag(), job.etag());
  change.from = {v1::Job::PAUSED};
  change.to = v1::Job::QUEUED;
  EXPECT_EQ(Refusal(store_->UpdateState(change).status()), "ABORTED ETAG_MISMATCH");
  EXPECT_EQ(Get(job.name()).state(), v1::Job::PAUSED);
  ASSERT_TRUE(Move(job.name(), {v1::Job::PAUSED}, v1::Job::CANCELLED).ok());
  EXPECT_EQ(Refusal(store_->DeleteJob(job.name(), paused->etag())), "ABORTED ETAG_MISMATCH");
  EXPECT_EQ(store_->DeleteJob(job.name(), Get(job.name()).etag()), absl::OkStatus());
}

TEST_P(JobStoreConformance, ProvenanceIsMerged) {
  const v1::Job job = Create("a");
  v1::Provenance first;
  first.set_model_digest("m1");
  first.set_threads(2);
  ASSERT_EQ(store_->SetProvenance(job.name(), first), absl::OkStatus());
  v1::Provenance second;
  second.set_dtype("float32");
  second.set_threads(4);
  ASSERT_EQ(store_->SetProvenance(job.name(), second), absl::OkStatus());
  const v1::Job after = Get(job.name());
  EXPECT_EQ(after.provenance().model_digest(), "m1");
  EXPECT_EQ(after.provenance().dtype(), "float32");
  EXPECT_EQ(after.provenance().threads(), 4);
  EXPECT_NE(after.etag(), job.etag());
  EXPECT_EQ(Events(job.name()).size(), 1u);
  ASSERT_EQ(store_->SetProvenance(job.name(), second), absl::OkStatus());
  EXPECT_EQ(Get(job.name()).etag(), after.etag());  // nothing new, no change
}

TEST_P(JobStoreConformance, DeletingTakesAllThatIsTheJobs) {
  const std::string job = CreateWithUnits("a", 2);
  const std::string other = CreateWithUnits("b", 1);
  Lease lease = *Take(job, 0, 2);
  ASSERT_TRUE(Store(lease, 0).ok());
  EXPECT_EQ(Refusal(store_->DeleteJob(job, "")), "FAILED_PRECONDITION JOB_NOT_TERMINAL");
  ASSERT_TRUE(Move(job, {v1::Job::STARTING}, v1::Job::CANCELLED).ok());
  ASSERT_EQ(store_->DeleteJob(job, ""), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob(job).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->ReadEvents(job, 0, 10).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetStage(job, Stage::kScore).status()));
  EXPECT_EQ(Refusal(Store(lease, 1).status()), "ABORTED LEASE_LOST");
  EXPECT_EQ(store_->GetTotals()->chunk_bytes, 0);
  EXPECT_THAT(*store_->LiveDigests(), ElementsAre("manifest"));  // the other's
  EXPECT_EQ(store_->View()->leases.size(), 0u);
  CheckConsistent(other);
}

TEST_P(JobStoreConformance, OpenJobsAreThoseThatHaveNotEndedOldestFirst) {
  for (const char* id : {"a", "b", "c", "d"}) Create(id);
  ASSERT_TRUE(Move("projects/default/jobs/a", {v1::Job::QUEUED}, v1::Job::PAUSED).ok());
  ASSERT_TRUE(Move("projects/default/jobs/b", {v1::Job::QUEUED}, v1::Job::SUCCEEDED).ok());
  ASSERT_TRUE(Move("projects/default/jobs/c", {v1::Job::QUEUED}, v1::Job::CANCELLING).ok());
  EXPECT_THAT(*store_->OpenJobs(), ElementsAre("projects/default/jobs/a", "projects/default/jobs/c",
                                               "projects/default/jobs/d"));
}

TEST_P(JobStoreConformance, TotalsCountEveryState) {
  CreateWithUnits("a", 2);
  clock_.Advance(std::chrono::seconds(3));
  Create("b");
  clock_.Advance(std::chrono::seconds(4));
  auto totals = store_->GetTotals();
  ASSERT_TRUE(totals.ok()) << totals.status();
  EXPECT_EQ(totals->jobs.at(v1::Job::QUEUED), 2);
  EXPECT_EQ(totals->jobs.at(v1::Job::FAILED), 0);
  EXPECT_DOUBLE_EQ(totals->oldest_queued_seconds, 7);
  Lease lease = *Take("projects/default/jobs/a", 0, 2);
  ASSERT_TRUE(Store(lease, 1).ok());
  totals = store_->GetTotals();
  EXPECT_EQ(totals->jobs.at(v1::Job::STARTING), 1);
  EXPECT_EQ(totals->live_leases, 1);
  EXPECT_EQ(totals->chunk_bytes, 101);
  EXPECT_DOUBLE_EQ(totals->oldest_queued_seconds, 4);
}

}  // namespace
}  // namespace headcount::store
