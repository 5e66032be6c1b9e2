// See mapped_file.h.

#include "worker/engine/tensor/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace headcount::engine {

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  std::unique_ptr<MappedFile> file(new MappedFile(path));
  file->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->fd_ < 0) {
    return absl::NotFoundError(absl::StrCat("open ", path, ": ", std::strerror(errno)));
  }
  if (fstat(file->fd_, &file->opened_) != 0) {
    return absl::DataLossError(absl::StrCat("reading ", path, ": ", std::strerror(errno)));
  }
  const auto bytes = static_cast<size_t>(file->opened_.st_size);
  if (bytes == 0) return file;
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file->fd_, 0);
  if (data == MAP_FAILED) {
    return absl::DataLossError(absl::StrCat("mapping ", path, ": ", std::strerror(errno)));
  }
  file->data_ = static_cast<char*>(data);
  madvise(data, bytes, MADV_SEQUENTIAL);  // only advice: read ahead
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(opened_.st_size));
  if (fd_ >= 0) close(fd_);
}

void MappedFile::Release() {
  if (window_bytes_ > 0) madvise(data_ + window_begin_, window_bytes_, MADV_DONTNEED);
  window_bytes_ = 0;
}

absl::StatusOr<const char*> MappedFile::Window(uint64_t offset, uint64_t count) {
  Release();
  const auto size = static_cast<uint64_t>(opened_.st_size);
  if (count == 0) return data_;
  if (offset > size || count > size - offset) {
    return absl::DataLossError(
        absl::StrCat(path_, " ends at byte ", size, ", before its header says"));
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  window_begin_ = offset / page * page;
  window_bytes_ = offset + count - window_begin_;
  if (madvise(data_ + window_begin_, window_bytes_, MADV_POPULATE_READ) != 0) {
    const int error = errno;
    HC_RETURN_IF_ERROR(CheckUnchanged());
    // A kernel before 5.14 does not know the advice: the check is all there is.
    if (error != EINVAL) {
      return absl::DataLossError(
          absl::StrCat("reading ", path_, " at byte ", offset, ": ", std::strerror(error)));
    }
  }
  return data_ + offset;
}

absl::Status MappedFile::CheckUnchanged() const {
  struct stat now{};
  if (fstat(fd_, &now) != 0) {
    return absl::DataLossError(absl::StrCat("reading ", path_, ": ", std::strerror(errno)));
  }
  if (now.st_size < opened_.st_size) {
    return absl::DataLossError(absl::StrCat(path_, " was cut short while it was read: ",
                                            now.st_size, " bytes, before ", opened_.st_size));
  }
  if (now.st_size != opened_.st_size || now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec) {
    return absl::DataLossError(absl::StrCat(path_, " was changed while it was read"));
  }
  return absl::OkStatus();
}

}  // namespace headcount::engine
