// Parsed manifests by digest: few, large, read by every report and every slice. Keeps the last few
// that were used.
//
// Thread-safe. Errors: NOT_FOUND for an unknown digest, DATA_LOSS for a manifest that no longer is
// what was stored, OUT_OF_RANGE for samples beyond its end.

#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/store/artifact_store.h"

namespace headcount::queue {

class ManifestCache {
 public:
  // `artifacts` is not owned.
  explicit ManifestCache(store::ArtifactStore& artifacts, size_t capacity = 4);

  absl::StatusOr<std::shared_ptr<const v1::Manifest>> Get(const std::string& digest);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const v1::Manifest>>;

  store::ArtifactStore& artifacts_;
  const size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // last used first
};

// Samples [first_sample, first_sample + samples) in pieces of at most `piece_bytes` of tokens, each
// with the groups that its samples are the first to need. A sample larger than a piece is a piece.
absl::StatusOr<std::vector<v1::ManifestSlice>> SliceManifest(const v1::Manifest& manifest,
                                                             int64_t first_sample, int64_t samples,
                                                             int64_t piece_bytes = 1 << 20);

}  // namespace headcount::queue
