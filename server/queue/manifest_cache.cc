// See manifest_cache.h.

#include "server/queue/manifest_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/frame.h"

namespace headcount::queue {

ManifestCache::ManifestCache(store::ArtifactStore& artifacts, size_t capacity)
    : artifacts_(artifacts), capacity_(capacity) {}

absl::StatusOr<std::shared_ptr<const v1::Manifest>> ManifestCache::Get(const std::string& digest) {
  {
    std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(entries_.begin(), entries_.end(),
                     [&digest](const Entry& entry) { return entry.first == digest; });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return found->second;
    }
  }
  // Read without the lock: two threads may read one manifest, none waits for another's.
  HC_ASSIGN_OR_RETURN(const std::string bytes, artifacts_.Get(digest));
  auto manifest = std::make_shared<v1::Manifest>();
  HC_RETURN_IF_ERROR(format::Unframe(format::FrameKind::kManifest, bytes, manifest.get()));
  std::lock_guard lock(mutex_);
  entries_.emplace_front(digest, manifest);
  if (entries_.size() > capacity_) entries_.pop_back();
  return manifest;
}

absl::StatusOr<std::vector<v1::ManifestSlice>> SliceManifest(const v1::Manifest& manifest,
                                                             int64_t first_sample, int64_t samples,
                                                             int64_t piece_bytes) {
  const int64_t all = manifest.samples_size();
  if (first_sample < 0 || samples < 1 || first_sample >= all || samples > all - first_sample) {
    return WithReason(
        absl::OutOfRangeError(absl::StrCat("samples [", first_sample, ", ", first_sample, " + ",
                                           samples, "): the manifest has ", all, " samples")),
        "OUT_OF_RANGE");
  }
  std::vector<v1::ManifestSlice> pieces(1);
  if (manifest.has_generation()) *pieces[0].mutable_generation() = manifest.generation();
  int64_t bytes = 0;
  int64_t last_group = -1;
  for (int64_t i = first_sample; i < first_sample + samples; ++i) {
    const v1::ManifestSample& sample = manifest.samples(static_cast<int>(i));
    const bool new_group = sample.group() != last_group;
    int64_t size = static_cast<int64_t>(sample.ByteSizeLong());
    v1::ManifestGroup group;
    if (new_group) {
      group = manifest.groups(static_cast<int>(sample.group()));
      group.set_group(sample.group());
      size += static_cast<int64_t>(group.ByteSizeLong());
      last_group = sample.group();
    }
    if (bytes > 0 && bytes + size > piece_bytes) {
      pieces.emplace_back();
      bytes = 0;
    }
    bytes += size;
    if (new_group) *pieces.back().add_groups() = std::move(group);
    *pieces.back().add_samples() = sample;
  }
  return pieces;
}

}  // namespace headcount::queue
