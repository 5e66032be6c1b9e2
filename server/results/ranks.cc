// See ranks.h.

#include "server/results/ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<size_t> Order(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&values](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

double Pearson(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : kNaN;
}

// 1 for each index among the `top` largest.
std::vector<uint8_t> TopFlags(std::span<const double> values, int top) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&values](size_t a, size_t b) { return values[a] > values[b]; });
  std::vector<uint8_t> flags(values.size(), 0);
  for (int i = 0; i < top; ++i) flags[order[static_cast<size_t>(i)]] = 1;
  return flags;
}

}  // namespace

std::vector<double> AverageRanks(std::span<const double> values) {
  const std::vector<size_t> order = Order(values);
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(first + 1 + end) / 2;
    }
    first = end;
  }
  return ranks;
}

std::vector<double> RanksFromLargest(std::span<const double> values) {
  std::vector<double> ranks = AverageRanks(values);
  for (double& rank : ranks) rank = static_cast<double>(values.size()) + 1 - rank;
  return ranks;
}

double Spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.size() < 2) return kNaN;
  return Pearson(AverageRanks(a), AverageRanks(b));
}

double AreaUnderRoc(std::span<const double> values, std::span<const uint8_t> positive) {
  if (values.size() != positive.size()) return kNaN;
  const std::vector<double> ranks = AverageRanks(values);
  double positives = 0;
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (positive[i] == 0) continue;
    ++positives;
    sum += ranks[i];
  }
  const double negatives = static_cast<double>(values.size()) - positives;
  if (positives == 0 || negatives == 0) return kNaN;
  return (sum - positives * (positives + 1) / 2) / (positives * negatives);
}

double TopOverlap(std::span<const double> a, std::span<const double> b, int top) {
  if (a.size() != b.size() || top < 1 || a.size() < static_cast<size_t>(top)) return kNaN;
  const std::vector<uint8_t> in_a = TopFlags(a, top);
  const std::vector<uint8_t> in_b = TopFlags(b, top);
  int shared = 0;
  for (size_t i = 0; i < a.size(); ++i) shared += in_a[i] & in_b[i];
  return static_cast<double>(shared) / static_cast<double>(2 * top - shared);
}

}  // namespace headcount::results
