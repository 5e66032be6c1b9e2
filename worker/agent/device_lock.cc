// See device_lock.h.

#include "worker/agent/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/errors.h"
#include "common/base/files.h"

namespace headcount::agent {
namespace {

// A launcher that looks whether the lock is free holds it for a moment.
constexpr int kTries = 10;
constexpr std::chrono::milliseconds kBetween{50};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLock>> DeviceLock::Take(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::InternalError(absl::StrCat("lock file ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<DeviceLock> lock(new DeviceLock(fd));
  for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return absl::InternalError(absl::StrCat("lock file ", path, ": ", std::strerror(errno)));
    }
    if (i == kTries) {
      const std::string owner = ReadFile(path, 1'000).value_or("");
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              "another worker (process ", absl::StripSuffix(owner, "\n"), ") holds ", path)),
          "DEVICE_IN_USE");
    }
    std::this_thread::sleep_for(kBetween);
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return absl::InternalError(absl::StrCat("lock file ", path, ": ", std::strerror(errno)));
  }
  return lock;
}

DeviceLock::~DeviceLock() { close(fd_); }

}  // namespace headcount::agent
