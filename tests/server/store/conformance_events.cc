// Events, the listener, and that all of it is still there after a restart. See conformance.h.

#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/store/conformance.h"

namespace headcount::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobEvent CurvePoint(double accuracy) {
  v1::JobEvent event;
  event.mutable_curve_point()->set_curve("entropy");
  event.mutable_curve_point()->set_accuracy(accuracy);
  return event;
}

TEST_P(JobStoreConformance, AnEventWithAKeyIsWrittenOnce) {
  const std::string job = Create("a").name();
  const std::string other = Create("b").name();
  v1::JobEvent event = CurvePoint(.5);
  event.set_sequence(99);  // not the caller's to say
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(*store_->AppendEvent(job, event, "curve/0/1"), true);
  EXPECT_EQ(*store_->AppendEvent(job, CurvePoint(.6), "curve/0/1"), false);
  EXPECT_EQ(*store_->AppendEvent(job, CurvePoint(.7), "curve/0/2"), true);
  EXPECT_EQ(*store_->AppendEvent(other, CurvePoint(.8), "curve/0/1"), true);
  EXPECT_EQ(*store_->AppendEvent(job, CurvePoint(.9), ""), true);
  EXPECT_EQ(*store_->AppendEvent(job, CurvePoint(.9), ""), true);
  const std::vector<v1::JobEvent> events = Events(job);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].sequence(), 2);
  EXPECT_EQ(events[1].time().seconds(), 1'760'000'002);
  EXPECT_EQ(events[1].curve_point().accuracy(), .5);
  EXPECT_EQ(events[2].curve_point().accuracy(), .7);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, TheEventOfTheEndIsTheLast) {
  const std::string job = CreateWithUnits("a", 1);
  Lease lease = *Take(job, 0, 1);
  ASSERT_TRUE(Move(job, {v1::Job::STARTING}, v1::Job::FAILED).ok());
  EXPECT_EQ(*store_->AppendEvent(job, CurvePoint(.5), "late"), false);
  EXPECT_TRUE(End(lease, LeaseEnd::kCrash).ok());
  clock_.Advance(kTerm);
  EXPECT_THAT(*store_->ExpireLeases(), IsEmpty());
  EXPECT_EQ(Events(job).back().state_changed().to(), v1::Job::FAILED);
}

TEST_P(JobStoreConformance, EventsAreReadInPagesAfterASequence) {
  const std::string job = Create("a").name();
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(store_->AppendEvent(job, CurvePoint(i), "").ok());
  auto sequences = [&](int64_t after, int limit) {
    std::vector<int64_t> out;
    auto events = store_->ReadEvents(job, after, limit);
    for (const v1::JobEvent& event : *events) out.push_back(event.sequence());
    return out;
  };
  EXPECT_THAT(sequences(0, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(sequences(3, 4), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(sequences(8, 100), ElementsAre(9, 10));
  EXPECT_THAT(sequences(10, 100), IsEmpty());
  EXPECT_EQ(*store_->LastSequence(job), 10);
}

TEST_P(JobStoreConformance, SequencesAreDenseUnderManyWriters) {
  const std::string job = CreateWithUnits("a", 30);
  Lease lease = *Take(job, 0, 30);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        (void)Store(lease, 10 * t + i);
        (void)store_->AppendEvent(job, CurvePoint(i), absl::StrCat("shared/", i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Events(job).size(), 3u + 30u + 10u);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, TheListenerIsToldAfterEachWriteOfEvents) {
  std::vector<std::string> told;
  std::vector<int64_t> seen;  // what it finds when it looks: the event is there, no lock is held
  store_->SetListener([&](const std::string& job) {
    told.push_back(job.substr(22));
    seen.push_back(*store_->LastSequence(job));
  });
  const std::string a = CreateWithUnits("a", 3);
  Create("b");
  Lease lease = *Take(a, 0, 2);
  EXPECT_THAT(told, ElementsAre("a", "a", "b", "a"));
  EXPECT_THAT(seen, ElementsAre(1, 2, 1, 3));
  told.clear();
  ASSERT_TRUE(Take(a, 2, 1).ok());  // no event: it was STARTING already
  ASSERT_TRUE(store_->RenewLease(lease.task, lease.attempt, kTerm).ok());
  ASSERT_FALSE(Take(a, 0, 1).ok());
  ASSERT_EQ(store_->AddUsage("ann", 1), absl::OkStatus());
  EXPECT_THAT(told, IsEmpty());
  ASSERT_TRUE(Store(lease, 0).ok());
  EXPECT_THAT(told, ElementsAre("a"));
  ASSERT_TRUE(Store(lease, 0).ok());
  ASSERT_FALSE(Move(a, {v1::Job::PAUSED}, v1::Job::RUNNING).ok());
  EXPECT_THAT(told, ElementsAre("a"));
  clock_.Advance(kTerm);
  ASSERT_EQ(store_->ExpireLeases()->size(), 2u);
  EXPECT_THAT(told, ElementsAre("a", "a"));  // two events, one transaction, one call
}

TEST_P(DurableJobStoreConformance, ARestartLosesNothing) {
  NewJob request = Request("a");
  request.request_id = "r1";
  request.body_digest = "body";
  const std::string job = store_->CreateJob(request, 10)->job.name();
  ASSERT_EQ(Plan(job, Stage::kScore, 3), absl::OkStatus());
  ASSERT_TRUE(Store(*Take(job, 0, 2), 0).ok());
  ASSERT_TRUE(store_->AppendEvent(job, CurvePoint(.5), "once").ok());
  ASSERT_EQ(store_->PutManifestKey("k", "manifest"), absl::OkStatus());
  ASSERT_EQ(store_->AddUsage("ann", 8), absl::OkStatus());
  v1::Provenance provenance;
  provenance.set_dtype("float32");
  ASSERT_EQ(store_->SetProvenance(job, provenance), absl::OkStatus());
  const std::string before = Get(job).SerializeAsString();
  const std::vector<v1::JobEvent> events = Events(job);
  Reopen();
  EXPECT_EQ(Get(job).SerializeAsString(), before);
  const std::vector<v1::JobEvent> after = Events(job);
  ASSERT_EQ(after.size(), events.size());
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(after[i].SerializeAsString(), events[i].SerializeAsString());
  EXPECT_FALSE(store_->CreateJob(request, 10)->created);
  EXPECT_EQ(*store_->AppendEvent(job, CurvePoint(.5), "once"), false);
  EXPECT_EQ(*store_->FindManifestKey("k"), "manifest");
  EXPECT_DOUBLE_EQ(store_->View()->usage.at("ann"), 8);
  EXPECT_EQ(store_->ListChunks(job, Stage::kScore, 0, 9)->at(0).digest, "digest-0");
  EXPECT_THAT(*store_->OpenJobs(), ElementsAre(job));
  CheckConsistent(job);
}

}  // namespace
}  // namespace headcount::store
