// See layer_cache.h.

#include "worker/engine/generate/layer_cache.h"

#include <algorithm>
#include <vector>

#include "ATen/ops/empty.h"

namespace headcount::engine {
namespace {

// The cache below `root` that was used longest ago, by where it hangs.
struct Oldest {
  LayerCache* parent = nullptr;
  std::string mask;
  int64_t last_step = 0;
};

void FindOldest(LayerCache& from, Oldest& oldest) {
  for (auto& [mask, cache] : from.next) {
    if (oldest.parent == nullptr || cache->last_step < oldest.last_step) {
      oldest = {&from, mask, cache->last_step};
    }
    FindOldest(*cache, oldest);
  }
}

}  // namespace

void GrowingTensor::Append(const at::Tensor& rows, int64_t capacity) {
  const int64_t needed = rows_ + rows.size(0);
  if (!whole_.defined() || whole_.size(0) < needed) {
    std::vector<int64_t> sizes = rows.sizes().vec();
    sizes[0] = std::max(capacity, needed);
    const at::Tensor larger = at::empty(sizes, rows.options());
    if (rows_ > 0) larger.narrow(0, 0, rows_).copy_(From(0));
    whole_ = larger;
  }
  whole_.narrow(0, rows_, rows.size(0)).copy_(rows);
  rows_ = needed;
}

int64_t LayerCache::TreeBytes() const {
  int64_t sum = bytes();
  for (const auto& [mask, cache] : next) sum += cache->TreeBytes();
  return sum;
}

int64_t LayerCache::Trim(int64_t limit, int64_t now) {
  int64_t left = TreeBytes();
  while (left > limit) {
    Oldest oldest;
    FindOldest(*this, oldest);
    if (oldest.parent == nullptr || oldest.last_step == now) break;
    oldest.parent->next.erase(oldest.mask);
    left = TreeBytes();
  }
  return left;
}

}  // namespace headcount::engine
