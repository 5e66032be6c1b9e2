// See certify.h.

#include "server/results/certify.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kNormalCritical = 1.959963984540054;  // of kIntervalLevel

}  // namespace

Bounds BonettPrice(int64_t flips_to_wrong, int64_t flips_to_right, int64_t n) {
  if (n < 1) return {kNaN, kNaN};
  const double all = static_cast<double>(n) + 2;
  const double wrong = static_cast<double>(flips_to_wrong + 1) / all;
  const double right = static_cast<double>(flips_to_right + 1) / all;
  const double mean = right - wrong;
  const double error = std::sqrt((wrong + right - mean * mean) / all);
  return {std::max(-1.0, mean - kNormalCritical * error),
          std::min(1.0, mean + kNormalCritical * error)};
}

double CertificateBound(double clustered_low, int64_t flips_to_wrong, int64_t flips_to_right,
                        int64_t n) {
  if (std::isnan(clustered_low)) return kNaN;
  return std::min(clustered_low, BonettPrice(flips_to_wrong, flips_to_right, n).low);
}

double SmallestMargin(int64_t flips, int64_t n, double standard_error, double standard_error_iid) {
  if (n < 1) return kNaN;
  const double all = static_cast<double>(n) + 2;
  const double half = kNormalCritical * std::sqrt(static_cast<double>(flips + 2)) / all;
  const double effect = standard_error_iid > 0 ? standard_error / standard_error_iid : 1;
  return std::min(1.0, half * std::max(1.0, effect));
}

std::vector<double> HolmAdjusted(std::span<const double> p) {
  std::vector<size_t> order;
  for (size_t i = 0; i < p.size(); ++i) {
    if (!std::isnan(p[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&p](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size(), kNaN);
  double before = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const double scaled = p[order[k]] * static_cast<double>(order.size() - k);
    before = std::max(before, std::min(1.0, scaled));
    adjusted[order[k]] = before;
  }
  return adjusted;
}

}  // namespace headcount::results
