// See artifact_store.h.

#include "server/store/artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"

namespace headcount::store {
namespace {

namespace fs = std::filesystem;

// A file may be on disk for a moment before a row names it; nothing younger than this is removed.
constexpr auto kGrace = std::chrono::hours(1);

bool IsDigest(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::Status NoSuchArtifact(std::string_view digest) {
  return absl::NotFoundError(absl::StrCat("no artifact ", std::string(digest.substr(0, 64))));
}

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat(what, ": the bytes no longer have their digest"));
}

// Durable when it returns; `parent` is the folder that gets the entry.
absl::Status MakeFolder(const std::string& folder, const std::string& parent) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot create the folder ", folder, ": ", error.message()));
  }
  const int fd = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  if (fd >= 0) close(fd);
  if (synced) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot sync ", parent, ": ", std::strerror(errno)));
}

class FolderStore final : public ArtifactStore {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::string> Put(std::string_view bytes) override {
    const std::string digest = Sha256Hex(bytes);
    const std::string path = PathOf(digest);
    {
      // Collect must not remove the file between the look and the renewal of its age.
      std::lock_guard lock(mutex_);
      struct stat info;
      if (stat(path.c_str(), &info) == 0 && info.st_size == static_cast<off_t>(bytes.size()) &&
          utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0) {
        return digest;
      }
    }
    absl::Status written = WriteFileDurably(path, bytes);
    if (absl::IsNotFound(written)) {  // the first of its folder
      HC_RETURN_IF_ERROR(MakeFolder(absl::StrCat(folder_, "/", digest.substr(0, 2)), folder_));
      written = WriteFileDurably(path, bytes);
    }
    HC_RETURN_IF_ERROR(written);
    return digest;
  }

  absl::StatusOr<std::string> Get(const std::string& digest) override {
    if (!IsDigest(digest)) return NoSuchArtifact(digest);
    auto bytes = ReadFile(PathOf(digest));
    if (absl::IsNotFound(bytes.status())) return NoSuchArtifact(digest);
    HC_RETURN_IF_ERROR(bytes.status());
    if (Sha256Hex(*bytes) != digest) return Damaged(PathOf(digest));
    return bytes;
  }

  absl::StatusOr<int64_t> Collect(const std::set<std::string>& live) override {
    int64_t freed = 0;
    std::error_code error;
    const auto oldest_kept = fs::file_time_type::clock::now() - kGrace;
    for (auto it = fs::recursive_directory_iterator(folder_, error);
         !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      const std::string name = it->path().filename().string();
      // What is neither a chunk nor the rest of an interrupted write is not ours.
      const bool ours = IsDigest(std::string_view(name).substr(0, 64)) &&
                        (name.size() == 64 || name.compare(64, 5, ".tmp.") == 0);
      std::error_code gone;
      if (!ours || !it->is_regular_file(gone) || live.contains(name)) continue;
      std::lock_guard lock(mutex_);
      const auto changed = fs::last_write_time(it->path(), gone);
      if (gone || changed > oldest_kept) continue;
      const auto bytes = fs::file_size(it->path(), gone);
      if (!gone && fs::remove(it->path(), gone)) freed += static_cast<int64_t>(bytes);
    }
    if (error) {
      return absl::InternalError(absl::StrCat("cannot list ", folder_, ": ", error.message(), " (",
                                              freed, " bytes freed)"));
    }
    return freed;
  }

 private:
  std::string PathOf(const std::string& digest) const {
    return absl::StrCat(folder_, "/", digest.substr(0, 2), "/", digest);
  }

  const std::string folder_;
  std::mutex mutex_;
};

class MemoryStore final : public ArtifactStore {
 public:
  absl::StatusOr<std::string> Put(std::string_view bytes) override {
    std::string digest = Sha256Hex(bytes);
    std::lock_guard lock(mutex_);
    files_.emplace(digest, bytes);
    return digest;
  }
  absl::StatusOr<std::string> Get(const std::string& digest) override {
    std::lock_guard lock(mutex_);
    const auto found = files_.find(digest);
    if (found == files_.end()) return NoSuchArtifact(digest);
    return found->second;
  }
  absl::StatusOr<int64_t> Collect(const std::set<std::string>& live) override {
    std::lock_guard lock(mutex_);
    int64_t freed = 0;
    for (auto it = files_.begin(); it != files_.end();) {
      if (live.contains(it->first)) {
        ++it;
      } else {
        freed += static_cast<int64_t>(it->second.size());
        it = files_.erase(it);
      }
    }
    return freed;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactStore>> ArtifactStore::OpenFolder(
    const std::string& folder) {
  const std::string parent = fs::path(folder).parent_path().string();
  HC_RETURN_IF_ERROR(MakeFolder(folder, parent.empty() ? "." : parent));
  return std::make_unique<FolderStore>(folder);
}

std::unique_ptr<ArtifactStore> ArtifactStore::InMemory() { return std::make_unique<MemoryStore>(); }

}  // namespace headcount::store
