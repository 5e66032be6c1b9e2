// See download.h.

#include "server/api/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/rpc/channel.h"

namespace headcount::server {

absl::StatusOr<std::unique_ptr<Download>> Download::Open(const std::string& path, int64_t offset) {
  if (offset < 0) return InvalidField("offset", std::to_string(offset), "must not be negative");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::InternalError(absl::StrCat("open ", path, ": ", std::strerror(errno)));
  }
  struct stat info;
  if (fstat(fd, &info) != 0) info.st_size = 0;
  if (offset > info.st_size) {
    close(fd);
    return WithField(WithReason(absl::OutOfRangeError(absl::StrCat(
                                    "offset: ", offset, " is beyond the end at ", info.st_size)),
                                "OFFSET_BEYOND_END"),
                     "offset");
  }
  return std::unique_ptr<Download>(new Download(fd, offset, info.st_size));
}

Download::~Download() { close(fd_); }

absl::StatusOr<bool> Download::Next(v1::ArtifactChunk* chunk) {
  if (began_ && offset_ == size_) return false;
  began_ = true;
  std::string& data = *chunk->mutable_data();
  data.resize(static_cast<size_t>(std::min<int64_t>(rpc::kPieceBytes, size_ - offset_)));
  size_t have = 0;
  while (have < data.size()) {
    const ssize_t got = pread(fd_, data.data() + have, data.size() - have,
                              static_cast<off_t>(offset_) + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::InternalError("the file ended while it was sent");
    have += static_cast<size_t>(got);
  }
  chunk->set_offset(offset_);
  chunk->set_crc32c(Crc32c(data));
  chunk->set_total_bytes(size_);
  offset_ += static_cast<int64_t>(data.size());
  return true;
}

}  // namespace headcount::server
