// A whole sweep through dispatcher, report sink and job flow, with workers that die, fall silent,
// come back and resend, and a server that restarts, at random: the stored results are byte-equal to
// those of an undisturbed run, each unit is stored once, and the event sequence has no hole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/server/queue/fake_worker.h"

namespace headcount::queue {
namespace {

using store::Stage;

constexpr char kSweep[] =
    "sweep { workload { model: 'tiny' task { task: 'pairs' } }"
    " scores: 'entropy' scores: 'random' scores: 'HONOR' fractions: .1 fractions: .2 }";
constexpr int kUnits = 1 + 6 + 18;  // prepare, 24 samples by 4, times 6 rules by 2

// Sanitizers make a run several times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kRuns = 20;
#else
constexpr uint64_t kRuns = 300;
#endif

// (stage, unit, digest of the chunk, counts)
using Row = std::tuple<Stage, int64_t, std::string, std::string>;

std::vector<Row> ResultTable(TestServer& server, const std::string& job) {
  std::vector<Row> rows;
  for (Stage stage : {Stage::kPrepare, Stage::kScore, Stage::kAblate}) {
    const auto chunks = server.jobs->ListChunks(job, stage, 0, 1000);
    EXPECT_TRUE(chunks.ok()) << chunks.status();
    for (const store::ChunkRecord& chunk : *chunks) {
      rows.emplace_back(stage, chunk.unit, chunk.digest, chunk.counts.SerializeAsString());
    }
  }
  return rows;
}

void ExpectSoundEvents(const std::vector<v1::JobEvent>& events) {
  std::set<std::pair<std::string, int64_t>> stored;
  std::map<int, int> finals;
  std::map<int, int64_t> documents;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i) + 1);
    if (events[i].has_unit_stored()) {
      const v1::UnitStored& unit = events[i].unit_stored();
      EXPECT_TRUE(stored.emplace(unit.stage(), unit.unit()).second)
          << unit.stage() << " " << unit.unit();
    }
    if (events[i].has_curve_point()) {
      const v1::CurvePointChanged& point = events[i].curve_point();
      EXPECT_GT(point.documents(), documents[point.rule()]) << "rule " << point.rule();
      documents[point.rule()] = point.documents();
      if (point.final()) {
        ++finals[point.rule()];
        EXPECT_EQ(point.documents(), 12);
      }
    }
  }
  EXPECT_EQ(stored.size(), size_t{kUnits});
  EXPECT_EQ(finals.size(), 7u);  // the baseline and six rules
  for (const auto& [rule, count] : finals) EXPECT_EQ(count, 1) << "rule " << rule;
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().state_changed().to(), v1::Job::SUCCEEDED);
}

class Chaos {
 public:
  Chaos(TestServer& server, const std::string& job, uint64_t seed)
      : server_(server), job_(job), random_(seed) {
    for (const char* id : {"w0", "w1", "w2"}) {
      workers_.emplace_back(server, id);
      workers_.back().rows_per_second = 1 + Pick(3);
    }
  }

  void Run() {
    for (int step = 0; step < 5000; ++step) {
      if (server_.Get(job_).state() == v1::Job::SUCCEEDED) return;
      FakeWorker& worker = workers_[Pick(workers_.size())];
      switch (Pick(12)) {
        case 0:
          if (MayDie(worker)) Kill(worker);
          break;
        case 1:
          if (MayDie(worker)) Silence(worker);
          break;
        case 2:
          Resend(worker);
          break;
        case 3:
          server_.Restart();
          break;
        case 4:
          server_.clock.Advance(std::chrono::seconds(Pick(5)));
          EXPECT_TRUE(server_.dispatcher->Tick().ok());
          break;
        default:
          worker.Step();
          break;
      }
      Zombie();
    }
    ADD_FAILURE() << "the job did not end";
  }

  int deaths() const { return deaths_; }

 private:
  size_t Pick(size_t n) { return random_() % n; }

  // A unit that fails a third time is poison, which is another test's matter.
  bool MayDie(const FakeWorker& worker) {
    if (!worker.task().has_value()) return true;
    const auto key = std::pair(worker.task()->stage(), worker.task()->first_unit() + worker.next());
    return ++failures_[key] <= 2;
  }

  void Kill(FakeWorker& worker) {
    ++deaths_;
    if (worker.task().has_value() && worker.next() < worker.task()->unit_count()) {
      zombies_.push_back(worker);  // its process still has a report under way
    }
    EXPECT_TRUE(server_.dispatcher->WorkerDied(worker.id(), "", "signal 9").ok());
    worker.Die();
  }

  // Nobody sees it stop; the others go on meanwhile.
  void Silence(FakeWorker& worker) {
    ++deaths_;
    if (worker.task().has_value() && worker.next() < worker.task()->unit_count()) {
      zombies_.push_back(worker);
    }
    for (int i = 0; i < 4; ++i) {
      server_.clock.Advance(std::chrono::seconds(9));
      for (FakeWorker& other : workers_) {
        if (other.id() != worker.id()) other.Step();
      }
      EXPECT_TRUE(server_.dispatcher->Tick().ok());
    }
    worker.Die();
  }

  // The answer to its last report was lost.
  void Resend(FakeWorker& worker) {
    if (!worker.task().has_value() || worker.next() == 0) return;
    const auto answer = worker.Report(worker.next() - 1);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->outcome(), v1::ReportResultsResponse::DUPLICATE);
  }

  // A process that lost its lease reports after all: nothing changes.
  void Zombie() {
    if (zombies_.empty() || Pick(3) != 0) return;
    FakeWorker zombie = zombies_.back();
    zombies_.pop_back();
    const int64_t before = server_.jobs->LastSequence(job_).value_or(-1);
    const auto answer = zombie.Report(zombie.next());
    if (answer.ok()) {
      EXPECT_EQ(answer->outcome(), v1::ReportResultsResponse::DUPLICATE);
    } else {
      EXPECT_TRUE(absl::IsAborted(answer.status())) << answer.status();
    }
    EXPECT_EQ(server_.jobs->LastSequence(job_).value_or(-2), before);
  }

  TestServer& server_;
  const std::string job_;
  std::mt19937_64 random_;
  std::vector<FakeWorker> workers_;
  std::vector<FakeWorker> zombies_;
  std::map<std::pair<std::string, int64_t>, int> failures_;
  int deaths_ = 0;
};

// The table of a run by one worker that nothing disturbs.
std::vector<Row> UndisturbedTable() {
  TestServer server;
  const std::string job = server.Create("sweep", kSweep);
  FakeWorker worker(server, "w0");
  while (worker.Step()) {
  }
  EXPECT_EQ(server.Get(job).state(), v1::Job::SUCCEEDED) << server.Get(job).DebugString();
  ExpectSoundEvents(server.Events(job));
  std::vector<Row> table = ResultTable(server, job);
  EXPECT_EQ(table.size(), size_t{kUnits});
  return table;
}

TEST(SimulationTest, DisturbedRunsGiveTheUndisturbedTable) {
  const std::vector<Row> expected = UndisturbedTable();
  int deaths = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TestServer server;
    const std::string job = server.Create("sweep", kSweep);
    Chaos chaos(server, job, seed);
    chaos.Run();
    EXPECT_EQ(ResultTable(server, job), expected);
    ExpectSoundEvents(server.Events(job));
    deaths += chaos.deaths();
    if (HasFailure()) return;
  }
  EXPECT_GT(deaths, static_cast<int>(kRuns));
  RecordProperty("deaths", deaths);
}

TEST(SimulationTest, WorkersInParallelGiveTheUndisturbedTable) {
  const std::vector<Row> expected = UndisturbedTable();
  TestServer server;
  const std::string job = server.Create("sweep", kSweep);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&server, &job, i] {
      FakeWorker worker(server, "w" + std::to_string(i));
      while (server.Get(job).state() != v1::Job::SUCCEEDED && !testing::Test::HasFailure()) {
        if (!worker.Step()) std::this_thread::yield();
        EXPECT_TRUE(server.dispatcher->Tick().ok());
        EXPECT_LE(server.dispatcher->Workers().size(), 4u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ResultTable(server, job), expected);
  ExpectSoundEvents(server.Events(job));
}

}  // namespace
}  // namespace headcount::queue
