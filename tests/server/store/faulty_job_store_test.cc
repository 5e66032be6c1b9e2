// Calls that fail before they are made, and calls that are made but answered with a failure: a
// caller that asks again reaches the same end, and nothing is done twice.

#include "server/store/testing/faulty_job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/store/sqlite_job_store.h"

namespace headcount::store {
namespace {

constexpr Clock::Duration kTerm = std::chrono::hours(10);
constexpr int64_t kOperations = 10'000;
constexpr int64_t kUnits = 12;

// A server in small: keeps asking until it is answered, and looks at the store where the answer
// says that the state has moved on.
class Driver {
 public:
  explicit Driver(FaultyJobStore& store) : store_(store) {}

  int64_t operations() const { return operations_; }

  template <class Call>
  auto Until(Call call) -> decltype(call()) {
    while (true) {
      ++operations_;
      auto result = call();
      if (!absl::IsUnavailable(StatusOf(result))) return result;
    }
  }

  std::string RunJob(int number) {
    NewJob request;
    request.request_id = absl::StrCat("request ", number);
    request.body_digest = "body";
    request.job.set_owner("ann");
    request.job.mutable_score()->mutable_workload()->set_model("m");
    auto created = Until([&] {
      // The server makes a new name for each call it gets.
      request.job.set_name(absl::StrCat("projects/default/jobs/j", ++names_));
      return store_.CreateJob(request, 1'000'000);
    });
    EXPECT_TRUE(created.ok()) << created.status();
    const std::string job = created->job.name();

    StageRecord stage{.job = job, .stage = Stage::kScore, .manifest_digest = "m", .units = kUnits};
    const absl::Status planned = Until([&] { return store_.AddStage(stage, {}); });
    EXPECT_TRUE(planned.ok() || absl::IsAlreadyExists(planned)) << planned;
    v1::JobEvent event;
    event.mutable_curve_point()->set_curve("entropy");
    EXPECT_TRUE(Until([&] { return store_.AppendEvent(job, event, "once"); }).ok());

    for (int looks = 0;; ++looks) {
      if (looks > 1000) {
        ADD_FAILURE() << job << " does not come to its end";
        break;
      }
      auto leases = Until([&] { return store_.ListLeases(job); });
      EXPECT_TRUE(leases.ok()) << leases.status();
      if (!leases->empty()) {
        Work(leases->front());
        continue;
      }
      auto chunks = Until([&] { return store_.ListChunks(job, Stage::kScore, 0, 1000); });
      const auto next = static_cast<int64_t>(chunks->size());
      if (next == kUnits) break;
      auto lease = Until([&] {
        return store_.LeaseTask(
            {job, Stage::kScore, next, std::min<int64_t>(3, kUnits - next), "w"}, kTerm);
      });
      EXPECT_TRUE(lease.ok() || absl::IsAborted(lease.status())) << lease.status();
    }
    auto ended = Until([&] {
      return store_.UpdateState(
          {.job = job, .from = {v1::Job::STARTING, v1::Job::SUCCEEDED}, .to = v1::Job::SUCCEEDED});
    });
    EXPECT_TRUE(ended.ok()) << ended.status();
    return job;
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <class T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
    return result.status();
  }

  // Stores all of a lease's units; every fifth lease is lost in the middle first.
  void Work(const Lease& lease) {
    for (int64_t unit = lease.first_unit; unit < lease.first_unit + lease.unit_count; ++unit) {
      if (lease.attempt % 5 == 1 && unit == lease.first_unit + 1) {
        auto ended = Until([&] {
          return store_.EndLease(lease.task, lease.attempt, LeaseEnd::kCrash, "WORKER_DIED", "");
        });
        ASSERT_TRUE(ended.ok()) << ended.status();
        EXPECT_EQ(ended->failures, 0);
        EXPECT_EQ(ended->failed_unit, unit);
        return;
      }
      v1::UnitCounts counts;
      counts.set_rows(1);
      auto stored = Until([&] {
        return store_.StoreChunk(lease.task, lease.attempt, unit, absl::StrCat("d", unit), 1,
                                 counts);
      });
      ASSERT_TRUE(stored.ok()) << stored.status();
      EXPECT_EQ(stored->lease_complete, unit + 1 == lease.first_unit + lease.unit_count);
    }
  }

  FaultyJobStore& store_;
  int64_t operations_ = 0;
  int64_t names_ = 0;
};

TEST(FaultyJobStore, TenThousandCallsWithLostAnswersDoNothingTwice) {
  FakeClock clock;
  auto inner = SqliteJobStore::Open(":memory:", clock);
  ASSERT_TRUE(inner.ok()) << inner.status();
  FaultyJobStore store(*std::move(inner), {.not_done = .1, .answer_lost = .1, .seed = 42});
  Driver driver(store);
  std::vector<std::string> jobs;
  while (driver.operations() < kOperations && !::testing::Test::HasFailure())
    jobs.push_back(driver.RunJob(static_cast<int>(jobs.size())));
  EXPECT_GT(store.faults(), kOperations / 6);

  store.SetFaults(false);
  auto page = store.ListJobs({"default"}, "", 100'000);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->jobs.size(), jobs.size());  // one job a request
  for (const std::string& job : jobs) {
    SCOPED_TRACE(job);
    EXPECT_EQ(store.GetJob(job)->state(), v1::Job::SUCCEEDED);
    auto events = store.ReadEvents(job, 0, 1000);
    int64_t stored = 0, points = 0, planned = 0, states = 0;
    for (size_t i = 0; i < events->size(); ++i) {
      EXPECT_EQ((*events)[i].sequence(), static_cast<int64_t>(i) + 1);
      stored += (*events)[i].has_unit_stored();
      points += (*events)[i].has_curve_point();
      planned += (*events)[i].has_stage_planned();
      states += (*events)[i].has_state_changed();
    }
    EXPECT_EQ(stored, kUnits);
    EXPECT_EQ(points, 1);
    EXPECT_EQ(planned, 1);
    EXPECT_EQ(states, 3);
    EXPECT_EQ(store.GetStage(job, Stage::kScore)->done_rows, kUnits);
  }
}

TEST(FaultyJobStore, TheSeedDecidesTheFaults) {
  FakeClock clock;
  auto faults = [&](uint64_t seed) {
    FaultyJobStore store(*SqliteJobStore::Open(":memory:", clock), {.not_done = .5, .seed = seed});
    std::string pattern;
    for (int i = 0; i < 64; ++i) pattern += store.OpenJobs().ok() ? '.' : 'x';
    return pattern;
  };
  EXPECT_EQ(faults(1), faults(1));
  EXPECT_NE(faults(1), faults(2));
}

}  // namespace
}  // namespace headcount::store
