// Exact order statistics of more float32 values than fit in memory: the values are fed two or three
// times, in any order, and each time the digits of the wanted values' bit patterns are narrowed by
// counting (a radix selection). Memory is a few megabytes whatever the count.
//
// Not thread-safe. No errors: what is undefined is NaN.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace headcount::results {

// Feed every value by Add, end the pass, and again until done. NaN and infinities are left out and
// counted.
class RankSelector {
 public:
  // `ranks` is asked once, after the first pass, with the number of finite values: which order
  // statistics are wanted, each from 0 (the smallest) to count - 1. At most 2,000.
  explicit RankSelector(std::function<std::vector<int64_t>(int64_t count)> ranks);

  void Add(std::span<const float> values);
  void EndPass();
  bool done() const { return done_; }

  // After the first pass.
  int64_t count() const { return count_; }
  int64_t non_finite() const { return non_finite_; }

  // When done, for a rank that was asked for.
  float At(int64_t rank) const;

 private:
  // Values that share their leading digits with a wanted one, and how many are smaller than all of
  // them.
  struct Bucket {
    uint32_t prefix = 0;
    int64_t below = 0;
  };

  void Narrow(int digit_bits);

  std::function<std::vector<int64_t>(int64_t)> wanted_;
  std::vector<int64_t> ranks_;    // ascending, distinct
  std::vector<float> values_;     // of ranks_, when done
  std::vector<Bucket> buckets_;   // ascending by prefix; before the first pass the one of all
  std::vector<int32_t> slot_of_;  // leading 16 bits -> index of its first bucket, or -1
  std::vector<int64_t> counts_;   // [bucket][digit]
  int prefix_bits_ = 0;           // digits known so far
  int digit_bits_ = 16;           // digits counted in this pass
  int64_t count_ = 0;
  int64_t non_finite_ = 0;
  bool done_ = false;
};

// Between which order statistics a quantile lies.
struct Interpolation {
  int64_t lower = 0;  // rank
  int64_t upper = 0;
  double weight = 0;  // of upper, [0, 1)
  double Between(double at_lower, double at_upper) const {
    return at_lower + weight * (at_upper - at_lower);
  }
};

// On the empirical distribution y_i = (i + 1) / n at rank i, y clamped to [1/n, 1]: thresholds.
Interpolation AtDistribution(double y, int64_t n);

// On ranks 0..n-1 spread evenly over [0, 1], what numpy and R call the default: the quantiles of a
// head's scores.
Interpolation AtQuantile(double q, int64_t n);

}  // namespace headcount::results
