// The launcher over real processes: a shell that takes the lock as a worker does and waits. Every
// wait is for a condition, with a deadline.

#include "server/launch/process_launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "common/base/files.h"
#include "server/launch/worker_process.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::server {
namespace {

// Takes the lock or ends with 75, logs a line, and waits for SIGTERM. Its id, by which tests find
// it, comes last: from then on a signal meets the trap.
constexpr char kWorker[] = R"(
exec 9<>"$1" || exit 1
flock -n 9 || exit 75
trap 'exit 0' TERM
echo "started $$"
echo $$ >"$1"
while :; do sleep 0.02 9<&-; done
)";

constexpr LauncherOptions kFast = {.poll = std::chrono::milliseconds(5),
                                   .first_backoff = std::chrono::milliseconds(5),
                                   .longest_backoff = std::chrono::milliseconds(40)};

class ProcessLauncherTest : public ::testing::Test {
 protected:
  ProcessLauncherTest() {
    spdlog::set_level(spdlog::level::off);
    std::ofstream(Lock()) << "";
  }
  ~ProcessLauncherTest() override {
    if (const auto owner = LockOwner(Lock()); owner && IsLocked(Lock())) kill(*owner, SIGKILL);
  }

  std::string Lock() const { return folder_.File("cpu.lock"); }
  std::string Log() const { return folder_.File("worker.log"); }

  WorkerCommand Command(const std::string& script = kWorker) const {
    return {"host-cpu", {"/bin/sh", "-c", script, "worker", Lock()}, Log(), Lock()};
  }

  std::unique_ptr<ProcessLauncher> Launch(const WorkerCommand& command) {
    auto launcher = std::make_unique<ProcessLauncher>(
        std::vector<WorkerCommand>{command}, Clock::System(),
        ProcessLauncher::Events{[this](const std::string& id, const std::string& detail) {
                                  EXPECT_EQ(id, "host-cpu");
                                  std::lock_guard lock(mutex_);
                                  deaths_.push_back(detail);
                                },
                                [this](const std::string&) { return drained_.load(); }},
        kFast);
    launcher->Start();
    return launcher;
  }

  template <typename Condition>
  static bool Eventually(Condition condition) {
    const auto deadline = Clock::System().Monotonic() + std::chrono::seconds(20);
    while (!condition()) {
      if (Clock::System().Monotonic() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  // The process that has the lock and has said so.
  int Owner() const { return IsLocked(Lock()) ? LockOwner(Lock()).value_or(0) : 0; }
  // Waits for an owner other than `last` and returns what it saw: a worker that starts empties the
  // file first, so a second look may find nobody, and signals to 0 go to the tests themselves.
  int NextOwner(int last = 0) {
    int seen = 0;
    EXPECT_TRUE(Eventually([&] {
      seen = Owner();
      return seen != 0 && seen != last;
    }));
    return seen > 0 ? seen : -1;
  }
  size_t Deaths() {
    std::lock_guard lock(mutex_);
    return deaths_.size();
  }

  TempFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> deaths_;
  std::atomic<bool> drained_ = false;
};

TEST_F(ProcessLauncherTest, StartsAWorkerInASessionOfItsOwnAndAppendsItsOutput) {
  auto launcher = Launch(Command());
  const int pid = NextOwner();
  ASSERT_GT(pid, 0);
  EXPECT_EQ(launcher->Pids()[0], pid);
  EXPECT_EQ(getsid(pid), pid);
  ASSERT_TRUE(Eventually([&] { return ReadFile(Log()).value_or("").ends_with("\n"); }));
  EXPECT_EQ(*ReadFile(Log()), "started " + std::to_string(pid) + "\n");
  launcher->Stop(std::chrono::seconds(20));
  EXPECT_FALSE(IsLocked(Lock()));
}

TEST_F(ProcessLauncherTest, RestartsOneThatIsKilledAndSaysSo) {
  auto launcher = Launch(Command());
  int last = 0;
  for (size_t death = 0; death < 3; ++death) {
    last = NextOwner(last);
    ASSERT_GT(last, 0) << death;
    kill(last, SIGKILL);
    ASSERT_TRUE(Eventually([&] { return Deaths() > death; }));
  }
  EXPECT_NE(deaths_[0].find("signal 9"), std::string::npos) << deaths_[0];
  launcher->Stop(std::chrono::seconds(20));
}

TEST_F(ProcessLauncherTest, FindsAWorkerThatOutlivedItsServerAndNeverDoublesIt) {
  auto first = Launch(Command());
  const int pid = NextOwner();
  ASSERT_GT(pid, 0);
  first.reset();  // as if the server were gone: the worker goes on
  ASSERT_EQ(kill(pid, 0), 0);

  auto second = Launch(Command());
  ASSERT_TRUE(Eventually([&] { return second->Pids()[0] == pid; }));
  // It dies: the lock is free, its lease too, and a new one is started.
  kill(pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return Owner() != 0 && Owner() != pid; }));
  EXPECT_GE(Deaths(), 1u);
  second->Stop(std::chrono::seconds(20));
  EXPECT_FALSE(IsLocked(Lock()));
}

TEST_F(ProcessLauncherTest, AnOrderlyStopEndsAlsoAWorkerThatWasFound) {
  auto first = Launch(Command());
  ASSERT_TRUE(Eventually([&] { return Owner() != 0; }));
  first.reset();
  auto second = Launch(Command());
  second->Stop(std::chrono::seconds(20));
  EXPECT_FALSE(IsLocked(Lock()));
}

TEST_F(ProcessLauncherTest, AWorkerThatWasDrainedStaysDown) {
  drained_ = true;
  auto launcher = Launch(Command());
  const int pid = NextOwner();
  ASSERT_GT(pid, 0);
  kill(pid, SIGTERM);
  ASSERT_TRUE(Eventually([&] { return Deaths() == 1; }));
  EXPECT_EQ(deaths_[0], "exit code 0");
  EXPECT_EQ(launcher->Pids()[0], 0);
  launcher->Stop(std::chrono::seconds(20));
  EXPECT_EQ(Deaths(), 1u);
}

TEST_F(ProcessLauncherTest, OneThatKeepsEndingIsStartedLessAndLessOften) {
  const auto began = Clock::System().Monotonic();
  auto launcher = Launch(Command("exit 3"));
  ASSERT_TRUE(Eventually([&] { return Deaths() == 5; }));
  // 5 + 10 + 20 + 40 ms lie between five starts.
  EXPECT_GE(Clock::System().Monotonic() - began, std::chrono::milliseconds(75));
  EXPECT_EQ(deaths_[0], "exit code 3");
  launcher->Stop(std::chrono::seconds(20));
}

TEST_F(ProcessLauncherTest, OneThatDoesNotStopIsKilled) {
  auto launcher = Launch(Command(R"(
exec 9<>"$1"; flock -n 9 || exit 75
trap '' TERM
echo $$ >"$1"
while :; do sleep 0.02 9<&-; done)"));
  const int pid = NextOwner();
  ASSERT_GT(pid, 0);
  launcher->Stop(std::chrono::milliseconds(50));
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(ProcessLauncherTest, AProgramThatIsMissingIsNoReasonToGiveUp) {
  WorkerCommand command = Command();
  command.arguments[0] = folder_.File("not-there");
  auto launcher = Launch(command);
  std::error_code error;
  // It appears later: a link to the shell.
  std::filesystem::create_symlink("/bin/sh", command.arguments[0], error);
  EXPECT_TRUE(Eventually([&] { return Owner() != 0; }));
  launcher->Stop(std::chrono::seconds(20));
}

}  // namespace
}  // namespace headcount::server
