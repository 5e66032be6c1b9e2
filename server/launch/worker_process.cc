// See worker_process.h.

#include "server/launch/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"

extern char** environ;

namespace headcount::server {
namespace {

// The two C structs of posix_spawn, freed with the scope.
struct SpawnSetup {
  SpawnSetup() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

std::vector<std::string> Environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& arguments,
                                   const std::string& log) {
  SpawnSetup setup;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setflags(&setup.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_addopen(&setup.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&setup.actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&setup.actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&setup.actions, 3);

  std::vector<std::string> texts = arguments;
  std::vector<std::string> environment = Environment();
  pid_t pid = 0;
  const int error = posix_spawn(&pid, texts[0].c_str(), &setup.actions, &setup.attributes,
                                Pointers(texts).data(), Pointers(environment).data());
  if (error == 0) return pid;
  const std::string message =
      absl::StrCat("cannot start ", texts[0], " with log ", log, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
}

std::optional<ProcessEnd> PollProcess(pid_t pid) {
  int status = 0;
  const pid_t result = waitpid(pid, &status, WNOHANG);
  if (result == 0) return std::nullopt;
  if (result < 0) return ProcessEnd{false, std::strerror(errno)};
  if (WIFSIGNALED(status)) {
    return ProcessEnd{
        false, absl::StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")};
  }
  const int code = WEXITSTATUS(status);
  return ProcessEnd{code == 0, absl::StrCat("exit code ", code)};
}

bool IsLocked(const std::string& lock) {
  const int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);  // gives back what was taken to look
  return locked;
}

std::optional<pid_t> LockOwner(const std::string& lock) {
  const auto text = ReadFile(lock, 1'000);
  if (!text.ok()) return std::nullopt;
  pid_t pid = 0;
  const auto result = std::from_chars(text->data(), text->data() + text->size(), pid);
  if (result.ec != std::errc() || pid <= 1) return std::nullopt;
  return pid;
}

}  // namespace headcount::server
