// The parts of the worker's program: its lock, the choice of number type, and, as a process with
// the fake engine, how it ends.

#include "worker/agent/worker_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/files.h"
#include "worker/agent/device_lock.h"

extern char** environ;

namespace headcount::agent {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(ChooseDType, FollowsTheWorkloadThenTheCheckpoint) {
  using Kind = engine::Device::Kind;
  struct Case {
    v1::DType asked;
    const char* checkpoint;
    Kind device;
    const char* name;  // empty: refused
  };
  const Case cases[] = {
      {v1::DTYPE_UNSPECIFIED, "float32", Kind::kCuda, "float32"},
      {v1::DTYPE_UNSPECIFIED, "bfloat16", Kind::kCpu, "bfloat16"},
      {v1::DTYPE_UNSPECIFIED, "", Kind::kCpu, "float32"},
      {v1::DTYPE_UNSPECIFIED, "float16", Kind::kCpu, "float32"},
      {v1::DTYPE_UNSPECIFIED, "float16", Kind::kCuda, ""},
      {v1::DTYPE_FLOAT32, "bfloat16", Kind::kCuda, "float32"},
      {v1::DTYPE_BFLOAT16, "float32", Kind::kCpu, "bfloat16"},
      {v1::DTYPE_FLOAT16, "float32", Kind::kCpu, ""},
  };
  for (const Case& c : cases) {
    const auto chosen = ChooseDType(c.asked, c.checkpoint, c.device);
    if (*c.name == '\0') {
      EXPECT_TRUE(absl::IsUnimplemented(chosen.status())) << c.checkpoint;
      continue;
    }
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->name, c.name);
    EXPECT_EQ(chosen->dtype == engine::DType::kFloat32, chosen->name == "float32");
  }
}

TEST(DeviceLock, IsHeldByOneAndNamesItsOwner) {
  const std::string path = ::testing::TempDir() + "/lock_test/cpu.lock";
  {
    const auto first = DeviceLock::Take(path);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(*ReadFile(path), std::to_string(getpid()) + "\n");
    const auto second = DeviceLock::Take(path);
    EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("process " + std::to_string(getpid())));
  }
  EXPECT_TRUE(DeviceLock::Take(path).ok());
  fs::remove_all(fs::path(path).parent_path());
}

class WorkerProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* build = std::getenv("HEADCOUNT_BUILD");
    ASSERT_NE(build, nullptr) << "ctest sets HEADCOUNT_BUILD";
    program_ = std::string(build) + "/bin/headcount-worker-fake";
    lock_ = ::testing::TempDir() + "/worker_process_test.lock";
    fs::remove(lock_);
  }
  // With the lock, and without a server.
  pid_t Start(std::vector<std::string> flags) {
    std::vector<std::string> arguments = {program_, "--server", "127.0.0.1:1", "--lock", lock_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, program_.c_str(), nullptr, nullptr, pointers.data(), environ), 0);
    return pid;
  }
  static int Wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string program_;
  std::string lock_;
};

TEST_F(WorkerProcess, DrainsOnSigtermAndKeepsASecondOneAway) {
  const pid_t first = Start({});
  while (!fs::exists(lock_) || fs::file_size(lock_) == 0) usleep(1'000);
  EXPECT_EQ(Wait(Start({})), 75);
  kill(first, SIGTERM);
  EXPECT_EQ(Wait(first), 0);
}

TEST_F(WorkerProcess, RefusesWrongFlags) {
  EXPECT_EQ(Wait(Start({"--device", "gpu"})), 1);
  EXPECT_NE(Wait(Start({"--no-such-flag"})), 0);
  EXPECT_NE(Wait(Start({"--config", "/nowhere.yaml"})), 0);
}

}  // namespace
}  // namespace headcount::agent
