// Kill -9 of a process that writes, at random points: everything it acknowledged is there when the
// file is opened again.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/store/sqlite_job_store.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::store {
namespace {

constexpr Clock::Duration kTerm = std::chrono::seconds(30);
constexpr int kRounds = 20;
constexpr int kUnitsPerJob = 5;

void Acknowledge(int fd, const std::string& line) {
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(3);
}

// The child: makes jobs and stores their units until it is killed; writes a line to `fd` for each
// answer of OK.
[[noreturn]] void WriteForEver(const std::string& path, int round, int fd) {
  auto store = SqliteJobStore::Open(path, Clock::System());
  if (!store.ok()) _exit(1);
  for (int j = 0;; ++j) {
    NewJob job;
    job.job.set_name(absl::StrCat("projects/default/jobs/r", round, "-", j));
    job.job.set_owner("ann");
    job.job.mutable_score()->mutable_workload()->set_model("m");
    if (!(*store)->CreateJob(job, 1'000'000).ok()) _exit(2);
    Acknowledge(fd, absl::StrCat("job ", job.job.name(), "\n"));
    StageRecord stage{.job = job.job.name(), .stage = Stage::kScore, .units = kUnitsPerJob};
    stage.rows = kUnitsPerJob;
    if (!(*store)->AddStage(stage).ok()) _exit(2);
    auto lease = (*store)->LeaseTask({job.job.name(), Stage::kScore, 0, kUnitsPerJob, "w"}, kTerm);
    if (!lease.ok()) _exit(2);
    for (int64_t unit = 0; unit < kUnitsPerJob; ++unit) {
      v1::UnitCounts counts;
      counts.set_rows(1);
      if (!(*store)
               ->StoreChunk(lease->task, lease->attempt, unit, absl::StrCat("d", unit), 1, counts)
               .ok())
        _exit(2);
      Acknowledge(fd, absl::StrCat("unit ", job.job.name(), " ", unit, "\n"));
    }
  }
}

TEST(SqliteKill, WhatWasAcknowledgedSurvivesKill9) {
  TempFolder folder;
  const std::string path = folder.File("jobs.db");
  std::mt19937 random(20261130);
  std::set<std::string> jobs;
  std::set<std::pair<std::string, int64_t>> units;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      WriteForEver(path, round, ends[1]);
    }
    close(ends[1]);
    // Killed when it has acknowledged so many writes; what it is doing then is chance.
    const int64_t enough = 1 + static_cast<int64_t>(random() % 25);
    std::string text;
    char buffer[4096];
    bool killed = false;
    while (true) {
      const ssize_t count = read(ends[0], buffer, sizeof(buffer));
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
      if (!killed && std::count(text.begin(), text.end(), '\n') >= enough) {
        kill(child, SIGKILL);
        killed = true;
      }
    }
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(text, '\n', absl::SkipEmpty()))) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      int64_t unit = 0;
      if (words.size() == 2) jobs.insert(words[1]);
      if (words.size() == 3 && absl::SimpleAtoi(words[2], &unit)) units.insert({words[1], unit});
    }

    auto store = SqliteJobStore::Open(path, Clock::System());
    ASSERT_TRUE(store.ok()) << store.status();
    for (const std::string& job : jobs) EXPECT_TRUE((*store)->GetJob(job).ok()) << job;
    for (const auto& [job, unit] : units) {
      auto chunk = (*store)->ListChunks(job, Stage::kScore, unit, 1);
      ASSERT_TRUE(chunk.ok()) << chunk.status();
      ASSERT_EQ(chunk->size(), 1u) << job << " " << unit;
      EXPECT_EQ(chunk->front().unit, unit);
    }
  }
  EXPECT_GE(units.size(), static_cast<size_t>(kRounds));
}

}  // namespace
}  // namespace headcount::store
