// See artifacts.h.

#include "server/export/artifacts.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/numerics_version.h"
#include "server/export/curves_parquet.h"
#include "server/export/job_json.h"
#include "server/export/npy.h"
#include "server/export/samples_parquet.h"
#include "server/results/job_results.h"

namespace headcount::exports {
namespace {

namespace fs = std::filesystem;

// Raised when a file of the same results would get other bytes.
constexpr int kExportVersion = 2;

enum class Kind { kScores, kSamples, kCurves, kJob };

absl::StatusOr<Kind> KindOf(const v1::DownloadArtifactRequest& request) {
  const std::string& artifact = request.artifact();
  Kind kind = Kind::kScores;
  if (artifact == "samples.parquet") {
    kind = Kind::kSamples;
  } else if (artifact == "curves.parquet") {
    kind = Kind::kCurves;
  } else if (artifact == "job.json") {
    kind = Kind::kJob;
  } else if (artifact != "scores.npy") {
    return InvalidField("artifact", artifact.substr(0, 100),
                        "is none of scores.npy, samples.parquet, curves.parquet, job.json",
                        "UNKNOWN_ARTIFACT");
  }
  if (kind != Kind::kScores && !request.score().empty()) {
    return InvalidField("score", request.score().substr(0, 100), "belongs to scores.npy alone");
  }
  return kind;
}

// A name that two requests share exactly when they get the same bytes.
std::string FileName(const results::JobResults& results, const v1::DownloadArtifactRequest& request,
                     Kind kind) {
  std::string key =
      absl::StrCat(kExportVersion, "\n", catalog::kNumericsVersion, "\n", results.job.name(), "\n",
                   results.job.uid(), "\n", request.artifact(), "\n", request.score(), "\n");
  for (const auto* stage : {&results.score, &results.ablate}) {
    absl::StrAppend(&key, stage->has_value() ? (*stage)->done_units : -1, "\n");
  }
  // The job itself may change without a unit being stored.
  if (kind == Kind::kJob) absl::StrAppend(&key, results.job.state(), results.job.etag());
  return absl::StrCat(Sha256Hex(key).substr(0, 32), ".", request.artifact());
}

absl::Status FsError(const std::error_code& error, const std::string& path) {
  const std::string message = absl::StrCat(path, ": ", error.message());
  return error == std::errc::no_space_on_device ? absl::ResourceExhaustedError(message)
                                                : absl::InternalError(message);
}

absl::Status Write(store::JobStore& jobs, store::ArtifactStore& artifacts,
                   const results::JobResults& results, const v1::DownloadArtifactRequest& request,
                   Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::kScores:
      return WriteScoresNpy(jobs, artifacts, results, request.score(), path);
    case Kind::kSamples:
      return WriteSamplesParquet(jobs, artifacts, request.job(), path);
    case Kind::kCurves:
      return WriteCurvesParquet(jobs, artifacts, request.job(), path);
    case Kind::kJob:
      return WriteJobJson(results, path);
  }
  return absl::InternalError("no such artifact");
}

// Removes the files used longest ago until the rest fits. Others may do the same at once, so a file
// that is gone is no error.
void KeepWithin(const std::string& folder, const std::string& newest, int64_t kept_bytes) {
  struct File {
    fs::path path;
    fs::file_time_type used;
    int64_t bytes;
  };
  constexpr std::chrono::hours kAbandoned(24);
  const auto now = fs::file_time_type::clock::now();
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const auto bytes = static_cast<int64_t>(at->file_size(gone));
    const fs::file_time_type used = gone ? fs::file_time_type() : at->last_write_time(gone);
    if (gone) continue;
    if (at->path().extension() == ".part") {  // being written, or left by a crash
      if (now - used > kAbandoned) fs::remove(at->path(), gone);
      continue;
    }
    total += bytes;
    if (at->path() != newest) {
      files.push_back({at->path(), used, bytes});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= kept_bytes) break;
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

}  // namespace

absl::StatusOr<std::string> MakeArtifact(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                         const v1::DownloadArtifactRequest& request,
                                         const std::string& folder, int64_t kept_bytes) {
  HC_ASSIGN_OR_RETURN(const Kind kind, KindOf(request));
  HC_ASSIGN_OR_RETURN(const results::JobResults results, results::OpenResults(jobs, request.job()));
  const std::string path = absl::StrCat(folder, "/", FileName(results, request, kind));
  std::error_code error;
  if (fs::exists(path, error)) {
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);
    return path;
  }
  fs::create_directories(folder, error);
  if (error) return FsError(error, folder);

  static std::atomic<int> next{0};
  const std::string part = absl::StrCat(path, ".", getpid(), ".", next++, ".part");
  absl::Status written = Write(jobs, artifacts, results, request, kind, part);
  if (written.ok()) {
    fs::rename(part, path, error);
    if (error) written = FsError(error, path);
  }
  if (!written.ok()) {
    fs::remove(part, error);
    return written;
  }
  KeepWithin(folder, path, kept_bytes);
  return path;
}

}  // namespace headcount::exports
