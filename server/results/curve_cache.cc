// See curve_cache.h.

#include "server/results/curve_cache.h"

#include <algorithm>
#include <utility>

namespace headcount::results {

CurveCache::Entry& CurveCache::Use(const std::string& uid) {
  if (entries_.size() >= most_jobs_ && !entries_.contains(uid)) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  Entry& entry = entries_[uid];
  entry.used = ++clock_;
  return entry;
}

std::shared_ptr<const RuleOutcomes> CurveCache::Baseline(const std::string& uid) {
  std::lock_guard lock(mutex_);
  return Use(uid).baseline;
}

void CurveCache::KeepBaseline(const std::string& uid,
                              std::shared_ptr<const RuleOutcomes> baseline) {
  std::lock_guard lock(mutex_);
  Use(uid).baseline = std::move(baseline);
}

std::optional<std::vector<v1::CurvePoint>> CurveCache::Block(const std::string& uid,
                                                             int64_t block) {
  std::lock_guard lock(mutex_);
  const Entry& entry = Use(uid);
  const auto at = entry.blocks.find(block);
  if (at == entry.blocks.end()) return std::nullopt;
  return at->second;
}

void CurveCache::KeepBlock(const std::string& uid, int64_t block,
                           std::vector<v1::CurvePoint> points) {
  std::lock_guard lock(mutex_);
  Use(uid).blocks[block] = std::move(points);
}

std::shared_ptr<const Bootstrap> CurveCache::Intervals(const std::string& uid,
                                                       const std::string& key) {
  std::lock_guard lock(mutex_);
  const Entry& entry = Use(uid);
  return entry.intervals_key == key ? entry.intervals : nullptr;
}

void CurveCache::KeepIntervals(const std::string& uid, const std::string& key,
                               std::shared_ptr<const Bootstrap> intervals) {
  std::lock_guard lock(mutex_);
  Entry& entry = Use(uid);
  entry.intervals_key = key;
  entry.intervals = std::move(intervals);
}

}  // namespace headcount::results
