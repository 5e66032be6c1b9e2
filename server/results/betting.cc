// See betting.h.

#include "server/results/betting.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace headcount::results {
namespace {

// Sums of many numbers are compared with products of two: not closer than this, relative to the
// count.
constexpr double kRounding = 1e-12;

}  // namespace

BettingTest::BettingTest(double bound, int64_t population)
    : bound_(bound), population_(population) {
  capital_.fill(1);
}

void BettingTest::Add(double x) {
  // If the mean of the whole list were the bound, this is the mean of what is left of it.
  double left = bound_;
  if (population_ > 0) {
    left = (static_cast<double>(population_) * bound_ - sum_) /
           static_cast<double>(std::max<int64_t>(1, population_ - seen_));
  }
  if (left > 0) {
    for (size_t i = 0; i < kStakes.size(); ++i) {
      capital_[i] *= 1 + kStakes[i] / left * (x - left);
    }
  }
  ++seen_;
  sum_ += x;
  // More than the whole list could hold: the mean is above the bound for certain.
  const auto numbers = static_cast<double>(population_ > 0 ? population_ : seen_);
  const double most =
      population_ > 0 || bound_ == 0 ? numbers * bound_ : std::numeric_limits<double>::infinity();
  if (sum_ > most + kRounding * numbers) largest_ = std::numeric_limits<double>::infinity();
  largest_ = std::max(largest_, capital());
}

double BettingTest::capital() const {
  if (largest_ == std::numeric_limits<double>::infinity()) return largest_;
  return std::accumulate(capital_.begin(), capital_.end(), 0.0) /
         static_cast<double>(capital_.size());
}

}  // namespace headcount::results
