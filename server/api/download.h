// Reads a finished file in pieces with their checksums: the body of DownloadArtifact. The file
// stays open, so it can be removed meanwhile. Not thread-safe. Errors: INVALID_ARGUMENT for a
// negative offset, OUT_OF_RANGE for one beyond the end, INTERNAL for a file that cannot be read.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"

namespace headcount::server {

class Download {
 public:
  static absl::StatusOr<std::unique_ptr<Download>> Open(const std::string& path, int64_t offset);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  // The next piece, at most 1 MiB; false at the end. An empty rest gives one empty piece, so that
  // the client learns the size.
  absl::StatusOr<bool> Next(v1::ArtifactChunk* chunk);

 private:
  Download(int fd, int64_t offset, int64_t size) : fd_(fd), offset_(offset), size_(size) {}

  const int fd_;
  int64_t offset_;
  const int64_t size_;
  bool began_ = false;
};

}  // namespace headcount::server
