// One child process and one lock file: the system calls of the launcher. A worker is started in a
// session of its own, with nothing of the server's open, so that it outlives a server that is
// killed. Thread-safe as far as the system is. Errors: INTERNAL or NOT_FOUND naming the path.

#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace headcount::server {

// Runs `arguments` (the first is the program's path); stdout and stderr are appended to `log`.
absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const std::string& log);

// How a child ended, if it has: "exit code 1", "signal 9 (Killed)".
struct ProcessEnd {
  bool clean = false;  // exit code 0
  std::string description;
};
std::optional<ProcessEnd> PollProcess(pid_t pid);

// Whether a process holds the lock of this file.
bool IsLocked(const std::string& lock);
// The process that wrote its id into the file, if one did: workers do when they take the lock.
std::optional<pid_t> LockOwner(const std::string& lock);

}  // namespace headcount::server
