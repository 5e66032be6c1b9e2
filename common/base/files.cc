// See files.h.

#include "common/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace headcount {
namespace {

absl::Status FromErrno(int error, const std::string& what, const std::string& path) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FromErrno(errno, "open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "stat", path);
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder, not a file"));
  if (static_cast<uint64_t>(info.st_size) > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", info.st_size, " bytes, the limit is ", limit));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FromErrno(errno, "read", path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

absl::Status WriteFileDurably(const std::string& path, std::string_view bytes) {
  static std::atomic<uint64_t> counter = 0;
  const std::string temporary = absl::StrCat(path, ".tmp.", getpid(), ".", counter.fetch_add(1));
  absl::Status status;
  {
    Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (fd.get() < 0) return FromErrno(errno, "create", temporary);
    size_t done = 0;
    while (done < bytes.size() && status.ok()) {
      const ssize_t n = write(fd.get(), bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) status = FromErrno(errno, "write", temporary);
      if (n > 0) done += static_cast<size_t>(n);
    }
    if (status.ok() && fsync(fd.get()) != 0) status = FromErrno(errno, "fsync", temporary);
  }
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    status = FromErrno(errno, "rename", path);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FromErrno(errno, "open", folder);
  if (fsync(fd.get()) != 0) return FromErrno(errno, "fsync", folder);
  return absl::OkStatus();
}

}  // namespace headcount
