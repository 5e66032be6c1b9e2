// Chunks on disk: content-addressed, written once, checksummed by their frame. A file is named by
// the SHA-256 of its bytes, in a folder named by the digest's first two digits; it is on disk
// before any row names it. Bytes that nothing names for an hour may be collected.
//
// Thread-safe. Errors: NOT_FOUND, DATA_LOSS (the bytes no longer have their digest),
// RESOURCE_EXHAUSTED (disk full).

#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount::store {

class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;

  // Durable when it returns; the digest. Putting the same bytes again costs a look.
  virtual absl::StatusOr<std::string> Put(std::string_view bytes) = 0;
  // The bytes, checked against their digest.
  virtual absl::StatusOr<std::string> Get(const std::string& digest) = 0;
  // Removes files that are not in `live` and older than a grace period (an hour; none in memory),
  // and what interrupted writes left; how many bytes that freed.
  virtual absl::StatusOr<int64_t> Collect(const std::set<std::string>& live) = 0;

  // Creates `folder` where it is missing.
  static absl::StatusOr<std::unique_ptr<ArtifactStore>> OpenFolder(const std::string& folder);
  // For tests.
  static std::unique_ptr<ArtifactStore> InMemory();
};

}  // namespace headcount::store
