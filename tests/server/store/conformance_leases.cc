// Leases: fencing, terms, failures, and chunks stored under them. See conformance.h.

#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/store/conformance.h"

namespace headcount::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_P(JobStoreConformance, ALeaseTakesTheNextAttemptAndStartsTheJob) {
  const std::string job = CreateWithUnits("a", 4);
  auto lease = Take(job, 1, 2, "w3");
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->task, job + "/tasks/1");
  EXPECT_EQ(lease->job, job);
  EXPECT_EQ(lease->stage, Stage::kScore);
  EXPECT_EQ(lease->first_unit, 1);
  EXPECT_EQ(lease->unit_count, 2);
  EXPECT_EQ(lease->stored_units, 0);
  EXPECT_EQ(lease->attempt, 1);
  EXPECT_EQ(lease->worker, "w3");
  EXPECT_EQ(lease->expires, clock_.Monotonic() + kTerm);
  EXPECT_EQ(Get(job).state(), v1::Job::STARTING);
  EXPECT_EQ(Get(job).attempt(), 1);
  const v1::StateChanged change = Events(job).back().state_changed();
  EXPECT_EQ(change.from(), v1::Job::QUEUED);
  EXPECT_EQ(change.to(), v1::Job::STARTING);
  EXPECT_EQ(Take(job, 0, 1)->task, job + "/tasks/2");
  EXPECT_EQ(Events(job).size(), 3u);  // starting happens once
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, OnlyFreeUnitsCanBeLeased) {
  const std::string job = CreateWithUnits("a", 6);
  Lease lease = *Take(job, 2, 2);
  ASSERT_TRUE(Store(lease, 2).ok());
  for (auto [first, count] : std::vector<std::pair<int64_t, int64_t>>{{2, 1},
                                                                      {3, 1},
                                                                      {1, 2},
                                                                      {3, 2},
                                                                      {0, 6},
                                                                      {5, 2},
                                                                      {6, 1},
                                                                      {0, INT64_MAX},
                                                                      {INT64_MAX, INT64_MAX},
                                                                      {-1, 2},
                                                                      {0, 0},
                                                                      {4, -1}}) {
    EXPECT_EQ(Refusal(Take(job, first, count).status()), "ABORTED UNITS_TAKEN")
        << first << " " << count;
  }
  EXPECT_EQ(Refusal(Take(job, 0, 1, "w1", Stage::kAblate).status()), "ABORTED UNITS_TAKEN");
  EXPECT_EQ(Get(job).attempt(), 1);
  EXPECT_TRUE(Take(job, 0, 2).ok());
  EXPECT_TRUE(Take(job, 4, 2).ok());
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, AJobThatMayNotRunGivesNoLease) {
  const std::string job = CreateWithUnits("a", 1);
  for (v1::Job::State state : {v1::Job::PAUSED, v1::Job::CANCELLING, v1::Job::FAILED}) {
    ASSERT_TRUE(Move(job, {v1::Job::QUEUED, v1::Job::PAUSED, v1::Job::CANCELLING}, state).ok());
    EXPECT_EQ(Refusal(Take(job, 0, 1).status()), "ABORTED JOB_STATE");
  }
}

TEST_P(JobStoreConformance, ManyWorkersNeverGetTheSameUnit) {
  const std::string job = CreateWithUnits("a", 40);
  std::atomic<int> granted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t unit = 0; unit < 40; ++unit) granted += Take(job, unit, 1).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 40);
  EXPECT_EQ(Get(job).attempt(), 40);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, RenewalKeepsALeaseAndOnlyALiveOne) {
  const std::string job = CreateWithUnits("a", 2);
  Lease lease = *Take(job, 0, 2);
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(kTerm - std::chrono::seconds(1));
    auto renewed = store_->RenewLease(lease.task, lease.attempt, kTerm);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    EXPECT_EQ(renewed->expires, clock_.Monotonic() + kTerm);
    EXPECT_THAT(*store_->ExpireLeases(), IsEmpty());
  }
  EXPECT_EQ(store_->ListLeases(job)->at(0).expires, clock_.Monotonic() + kTerm);
  auto renew = [&](const std::string& task, int attempt) {
    return Refusal(store_->RenewLease(task, attempt, kTerm).status());
  };
  EXPECT_EQ(renew(lease.task, lease.attempt + 1), "ABORTED LEASE_LOST");
  EXPECT_EQ(renew(job + "/tasks/9", 9), "ABORTED LEASE_LOST");
  EXPECT_EQ(renew("projects/default/jobs/none/tasks/1", 1), "ABORTED LEASE_LOST");
  EXPECT_EQ(renew("nonsense", 1), "ABORTED LEASE_LOST");
  ASSERT_TRUE(End(lease, LeaseEnd::kReleased).ok());
  EXPECT_EQ(renew(lease.task, lease.attempt), "ABORTED LEASE_LOST");
}

TEST_P(JobStoreConformance, ASilentLeaseExpiresAndItsUnitsComeBack) {
  const std::string job = CreateWithUnits("a", 4);
  Lease silent = *Take(job, 0, 2, "w1");
  ASSERT_TRUE(Store(silent, 0).ok());
  clock_.Advance(kTerm / 2);
  Lease alive = *Take(job, 2, 2, "w2");
  clock_.Advance(kTerm / 2 - std::chrono::nanoseconds(1));
  EXPECT_THAT(*store_->ExpireLeases(), IsEmpty());
  clock_.Advance(std::chrono::nanoseconds(1));
  auto ended = store_->ExpireLeases();
  ASSERT_TRUE(ended.ok()) << ended.status();
  ASSERT_EQ(ended->size(), 1u);
  EXPECT_EQ((*ended)[0].lease.task, silent.task);
  EXPECT_EQ((*ended)[0].failed_unit, 1);
  EXPECT_EQ((*ended)[0].failures, 0);  // it had stored a unit
  EXPECT_THAT(FreeUnits(job), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(*store_->ListLeases(job), ::testing::SizeIs(1));
  EXPECT_THAT(*store_->ExpireLeases(), IsEmpty());
  const v1::TaskLost lost = Events(job).back().task_lost();
  EXPECT_EQ(lost.task(), silent.task);
  EXPECT_EQ(lost.attempt(), 1);
  EXPECT_EQ(lost.cause(), "LEASE_EXPIRED");
  EXPECT_EQ(lost.worker(), "w1");
  EXPECT_EQ(Get(job).state(), v1::Job::STARTING);  // losing a worker is not a state
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, ALateReportUnderALostLeaseChangesNothing) {
  const std::string job = CreateWithUnits("a", 2);
  Lease old = *Take(job, 0, 2, "w1");
  clock_.Advance(kTerm);
  ASSERT_EQ(store_->ExpireLeases()->size(), 1u);
  EXPECT_EQ(Refusal(Store(old, 0).status()), "ABORTED LEASE_LOST");
  Lease fresh = *Take(job, 0, 2, "w2");
  EXPECT_EQ(Refusal(Store(old, 0).status()), "ABORTED LEASE_LOST");
  // The token is the attempt: the old task's name with the new one's number is refused too.
  EXPECT_EQ(Refusal(store_->StoreChunk(old.task, fresh.attempt, 0, "d", 1, {}).status()),
            "ABORTED LEASE_LOST");
  ASSERT_TRUE(Store(fresh, 0, "theirs").ok());
  auto late = Store(old, 0, "mine");  // the unit is there by now: nothing to do
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->outcome, StoreOutcome::kDuplicate);
  EXPECT_EQ(store_->ListChunks(job, Stage::kScore, 0, 9)->at(0).digest, "theirs");
  EXPECT_EQ(Refusal(Store(old, 1).status()), "ABORTED LEASE_LOST");
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, StoringAUnitTwiceIsADuplicate) {
  const std::string job = CreateWithUnits("a", 3);
  Lease lease = *Take(job, 0, 2);
  auto first = Store(lease, 0, "d0");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->outcome, StoreOutcome::kStored);
  EXPECT_EQ(first->sequence, *store_->LastSequence(job));
  EXPECT_FALSE(first->lease_complete);
  EXPECT_FALSE(first->stage_complete);
  const v1::UnitStored event = Events(job).back().unit_stored();
  EXPECT_EQ(event.stage(), "score");
  EXPECT_EQ(event.unit(), 0);
  EXPECT_EQ(event.rows(), 2);
  EXPECT_EQ(event.done_units(), 1);
  EXPECT_EQ(event.total_units(), 3);
  auto again = Store(lease, 0, "other");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->outcome, StoreOutcome::kDuplicate);
  EXPECT_EQ(again->sequence, 0);
  EXPECT_EQ(store_->ListChunks(job, Stage::kScore, 0, 9)->at(0).digest, "d0");
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, TheLastUnitEndsTheLeaseAndAResendOfItStillGetsItsAnswer) {
  const std::string job = CreateWithUnits("a", 3);
  Lease lease = *Take(job, 0, 2);
  ASSERT_TRUE(Store(lease, 1).ok());
  auto last = Store(lease, 0);
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last->lease_complete);
  EXPECT_FALSE(last->stage_complete);
  EXPECT_THAT(*store_->ListLeases(job), IsEmpty());
  EXPECT_EQ(Refusal(store_->RenewLease(lease.task, lease.attempt, kTerm).status()),
            "ABORTED LEASE_LOST");
  auto resent = Store(lease, 0);
  ASSERT_TRUE(resent.ok()) << resent.status();
  EXPECT_EQ(resent->outcome, StoreOutcome::kDuplicate);
  EXPECT_TRUE(resent->lease_complete);
  auto whole = Store(*Take(job, 2, 1), 2);
  EXPECT_TRUE(whole->lease_complete);
  EXPECT_TRUE(whole->stage_complete);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, AUnitOutsideTheLeaseIsRefused) {
  const std::string job = CreateWithUnits("a", 4);
  Lease lease = *Take(job, 1, 2);
  for (int64_t unit : {0, 3, 4, -1}) {
    EXPECT_EQ(Refusal(Store(lease, unit).status()), "ABORTED LEASE_LOST") << unit;
  }
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, ReportsAreTakenWhileAJobIsPausedOrCancelling) {
  const std::string job = CreateWithUnits("a", 3);
  Lease lease = *Take(job, 0, 3);
  ASSERT_TRUE(Move(job, {v1::Job::STARTING}, v1::Job::PAUSED).ok());
  EXPECT_TRUE(Store(lease, 0).ok());
  ASSERT_TRUE(Move(job, {v1::Job::PAUSED}, v1::Job::CANCELLING).ok());
  EXPECT_TRUE(Store(lease, 1).ok());
  // Ending the job takes the lease away.
  ASSERT_TRUE(Move(job, {v1::Job::CANCELLING}, v1::Job::CANCELLED).ok());
  EXPECT_EQ(Refusal(Store(lease, 2).status()), "ABORTED LEASE_LOST");
  EXPECT_THAT(*store_->ListLeases(job), IsEmpty());
  EXPECT_EQ(Events(job).back().state_changed().to(), v1::Job::CANCELLED);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, FailuresAreCountedWhereLeasesStopWithoutHavingStored) {
  const std::string job = CreateWithUnits("a", 4);
  auto ended = End(*Take(job, 0, 4), LeaseEnd::kCrash);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->failed_unit, 0);
  EXPECT_EQ(ended->failures, 1);
  EXPECT_EQ(Get(job).failures(), 1);
  const v1::TaskLost lost = Events(job).back().task_lost();
  EXPECT_EQ(lost.cause(), "WORKER_DIED");
  EXPECT_EQ(lost.detail(), "signal 9");

  // Giving back never counts, nor does it tell of a loss.
  const size_t events = Events(job).size();
  for (LeaseEnd end : {LeaseEnd::kReleased, LeaseEnd::kDone}) {
    ended = End(*Take(job, 0, 4), end);
    EXPECT_EQ(ended->failed_unit, -1);
    EXPECT_EQ(ended->failures, 0);
  }
  EXPECT_EQ(Events(job).size(), events);
  EXPECT_EQ(Get(job).failures(), 1);

  // A crash at another unit is that unit's; one after progress is nobody's.
  Lease lease = *Take(job, 2, 2);
  ASSERT_TRUE(Store(lease, 2).ok());
  ended = End(lease, LeaseEnd::kCrash);
  EXPECT_EQ(ended->failed_unit, 3);
  EXPECT_EQ(ended->failures, 0);
  EXPECT_EQ(Get(job).failures(), 1);

  // Silence counts like a crash, at the same unit in a row.
  Lease silent = *Take(job, 0, 2);
  clock_.Advance(kTerm);
  auto expired = store_->ExpireLeases();
  ASSERT_EQ(expired->size(), 1u);
  EXPECT_EQ((*expired)[0].failures, 2);
  EXPECT_EQ(Get(job).failures(), 2);

  // Storing another unit does not clear it, storing this one does.
  lease = *Take(job, 0, 2);
  ASSERT_TRUE(Store(lease, 1).ok());
  EXPECT_EQ(Get(job).failures(), 2);
  ended = End(lease, LeaseEnd::kCrash);  // had stored a unit: the count stays
  EXPECT_EQ(ended->failed_unit, 0);
  EXPECT_EQ(ended->failures, 2);
  lease = *Take(job, 0, 1);
  ASSERT_TRUE(Store(lease, 0).ok());
  EXPECT_EQ(Get(job).failures(), 0);
  CheckConsistent(job);
}

TEST_P(JobStoreConformance, EndingALeaseTwiceAnswersTheSame) {
  const std::string job = CreateWithUnits("a", 2);
  Lease lease = *Take(job, 0, 2);
  auto first = End(lease, LeaseEnd::kCrash);
  ASSERT_TRUE(first.ok());
  const size_t events = Events(job).size();
  ASSERT_TRUE(End(*Take(job, 0, 2), LeaseEnd::kCrash).ok());
  auto again = End(lease, LeaseEnd::kCrash);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->failures, 1);
  EXPECT_EQ(again->failed_unit, 0);
  EXPECT_EQ(again->lease.task, lease.task);
  EXPECT_EQ(Events(job).size(), events + 1);
  EXPECT_EQ(Get(job).failures(), 2);
  EXPECT_EQ(Refusal(store_->EndLease(job + "/tasks/7", 7, LeaseEnd::kCrash, "", "").status()),
            "NOT_FOUND TASK_NOT_FOUND");
  EXPECT_EQ(Refusal(store_->EndLease(lease.task, 2, LeaseEnd::kCrash, "", "").status()),
            "ABORTED LEASE_LOST");
  CheckConsistent(job);
}

// A long random walk: whatever is leased, stored, ended or expired, each unit stays exactly one of
// free, leased and stored, and the events stay dense.
TEST_P(JobStoreConformance, EveryUnitIsAlwaysFreeLeasedOrStored) {
  const std::string job = CreateWithUnits("a", 60);
  std::mt19937 random(7);
  std::vector<Lease> leases;
  for (int step = 0; step < 400; ++step) {
    const int what = static_cast<int>(random() % 10);
    if (what < 4 || leases.empty()) {
      auto lease = Take(job, random() % 60, 1 + random() % 9);
      if (lease.ok()) leases.push_back(*lease);
    } else if (what < 8) {
      const Lease& lease = leases[random() % leases.size()];
      (void)Store(lease, lease.first_unit + static_cast<int64_t>(random() % lease.unit_count));
    } else if (what == 8) {
      (void)End(leases[random() % leases.size()],
                random() % 2 ? LeaseEnd::kCrash : LeaseEnd::kReleased);
    } else {
      clock_.Advance(kTerm / 3);
      (void)store_->ExpireLeases();
    }
    if (step % 20 == 0) CheckConsistent(job);
  }
  if (GetParam().durable) Reopen();
  CheckConsistent(job);
}

TEST_P(DurableJobStoreConformance, AnOpenedStoreGivesEachLiveLeaseAFreshTerm) {
  const std::string job = CreateWithUnits("a", 3);
  Lease old = *Take(job, 0, 1, "w1");
  clock_.Advance(kTerm / 2);
  Lease ended = *Take(job, 1, 1, "w2");
  ASSERT_TRUE(End(ended, LeaseEnd::kReleased).ok());
  clock_.Advance(kTerm);  // the server is away for longer than the lease
  Reopen();
  EXPECT_THAT(*store_->ExpireLeases(), IsEmpty());
  ASSERT_EQ(store_->ListLeases(job)->size(), 1u);
  EXPECT_EQ(store_->ListLeases(job)->at(0).expires, clock_.Monotonic() + kTerm);
  EXPECT_TRUE(Store(old, 0).ok());  // the worker went on meanwhile
  EXPECT_EQ(Refusal(Store(ended, 1).status()), "ABORTED LEASE_LOST");
  Lease silent = *Take(job, 1, 2);
  Reopen();
  clock_.Advance(kTerm);
  EXPECT_EQ(store_->ExpireLeases()->size(), 1u);
  EXPECT_EQ(Take(job, 1, 2)->attempt, silent.attempt + 1);  // never an old number again
  CheckConsistent(job);
}

}  // namespace
}  // namespace headcount::store
