// See quantiles.h. A float's bit pattern, sign flipped for positive and all bits for negative
// values, sorts as the float does; the first pass counts its leading 16 bits, the next one or two
// the rest, for the few buckets that hold a wanted rank.

#include "server/results/quantiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace headcount::results {
namespace {

constexpr int kFirstDigitBits = 16;
// The remaining 16 bits are counted at once where this many counters suffice, else 8 and 8.
constexpr size_t kCounterBudget = size_t{1} << 20;

uint32_t OrderedBits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);  // -0 becomes 0: they are equal
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}

float FromOrderedBits(uint32_t ordered) {
  return std::bit_cast<float>(ordered ^ ((ordered >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

}  // namespace

RankSelector::RankSelector(std::function<std::vector<int64_t>(int64_t)> ranks)
    : wanted_(std::move(ranks)), buckets_(1), counts_(size_t{1} << kFirstDigitBits, 0) {}

void RankSelector::Add(std::span<const float> values) {
  if (prefix_bits_ == 0) {
    for (const float x : values) {
      if (!std::isfinite(x)) {
        ++non_finite_;
        continue;
      }
      ++counts_[OrderedBits(x) >> kFirstDigitBits];
    }
    return;
  }
  const int shift = 32 - prefix_bits_ - digit_bits_;
  const uint32_t digit_mask = (1u << digit_bits_) - 1;
  for (const float x : values) {
    if (!std::isfinite(x)) continue;
    const uint32_t bits = OrderedBits(x);
    const int32_t slot = slot_of_[bits >> kFirstDigitBits];
    if (slot < 0) continue;
    const uint32_t prefix = bits >> (32 - prefix_bits_);
    auto bucket = static_cast<size_t>(slot);
    while (bucket < buckets_.size() && buckets_[bucket].prefix < prefix) ++bucket;
    if (bucket == buckets_.size() || buckets_[bucket].prefix != prefix) continue;
    ++counts_[(bucket << digit_bits_) + ((bits >> shift) & digit_mask)];
  }
}

void RankSelector::EndPass() {
  if (done_) return;
  if (prefix_bits_ == 0) {
    for (const int64_t n : counts_) count_ += n;
    ranks_ = count_ > 0 ? wanted_(count_) : std::vector<int64_t>();
    std::sort(ranks_.begin(), ranks_.end());
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
  }
  Narrow(digit_bits_);
  if (prefix_bits_ == 32 || ranks_.empty()) {
    // A bucket is now one value; ranks and buckets both ascend.
    size_t bucket = 0;
    for (const int64_t rank : ranks_) {
      while (bucket + 1 < buckets_.size() && buckets_[bucket + 1].below <= rank) ++bucket;
      values_.push_back(FromOrderedBits(buckets_[bucket].prefix));
    }
    counts_ = {};
    slot_of_ = {};
    done_ = true;
    return;
  }
  const bool at_once =
      prefix_bits_ == kFirstDigitBits && buckets_.size() << kFirstDigitBits <= kCounterBudget;
  digit_bits_ = at_once ? 16 : 8;
  counts_.assign(buckets_.size() << digit_bits_, 0);
  slot_of_.assign(size_t{1} << kFirstDigitBits, -1);
  for (size_t i = buckets_.size(); i-- > 0;) {
    slot_of_[buckets_[i].prefix >> (prefix_bits_ - kFirstDigitBits)] = static_cast<int32_t>(i);
  }
}

// Replaces each bucket by those of its digits that hold a wanted rank.
void RankSelector::Narrow(int digit_bits) {
  std::vector<Bucket> narrowed;
  size_t next = 0;  // of ranks_
  for (size_t i = 0; i < buckets_.size(); ++i) {
    int64_t below = buckets_[i].below;
    for (size_t digit = 0; digit < size_t{1} << digit_bits; ++digit) {
      const int64_t after = below + counts_[(i << digit_bits) + digit];
      if (next < ranks_.size() && ranks_[next] >= below && ranks_[next] < after) {
        narrowed.push_back(
            {(buckets_[i].prefix << digit_bits) | static_cast<uint32_t>(digit), below});
        while (next < ranks_.size() && ranks_[next] < after) ++next;
      }
      below = after;
    }
  }
  buckets_ = std::move(narrowed);
  prefix_bits_ += digit_bits;
}

float RankSelector::At(int64_t rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (!done_ || at == ranks_.end() || *at != rank) return std::numeric_limits<float>::quiet_NaN();
  return values_[static_cast<size_t>(at - ranks_.begin())];
}

namespace {

// At `position` on ranks 0..n-1.
Interpolation AtPosition(double position, int64_t n) {
  position = std::clamp(position, 0.0, static_cast<double>(n - 1));
  Interpolation between;
  between.lower = static_cast<int64_t>(position);
  between.upper = std::min(between.lower + 1, n - 1);
  between.weight = position - static_cast<double>(between.lower);
  return between;
}

}  // namespace

Interpolation AtDistribution(double y, int64_t n) {
  return AtPosition(y * static_cast<double>(n) - 1, n);
}

Interpolation AtQuantile(double q, int64_t n) {
  return AtPosition(q * static_cast<double>(n - 1), n);
}

}  // namespace headcount::results
