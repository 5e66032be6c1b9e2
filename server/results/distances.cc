// See distances.h.

#include "server/results/distances.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Walks both samples in order: `visit(x, next, gap)` for every stretch [x, next) on which the
// distribution functions differ by `gap`.
template <typename Visit>
void ForEachStep(std::span<const float> a, std::span<const float> b, Visit visit) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const float x = j == b.size() || (i < a.size() && a[i] <= b[j]) ? a[i] : b[j];
    while (i < a.size() && a[i] == x) ++i;
    while (j < b.size() && b[j] == x) ++j;
    const double gap = static_cast<double>(i) / static_cast<double>(a.size()) -
                       static_cast<double>(j) / static_cast<double>(b.size());
    double next = x;
    if (i < a.size()) next = a[i];
    if (j < b.size()) next = i < a.size() ? std::min(a[i], b[j]) : b[j];
    visit(double{x}, next, std::abs(gap));
  }
}

}  // namespace

double Wasserstein1(std::span<const float> a, std::span<const float> b) {
  if (a.empty() || b.empty()) return kNaN;
  double area = 0;
  ForEachStep(a, b, [&area](double x, double next, double gap) { area += (next - x) * gap; });
  return area;
}

double KolmogorovSmirnov(std::span<const float> a, std::span<const float> b) {
  if (a.empty() || b.empty()) return kNaN;
  double largest = 0;
  ForEachStep(a, b, [&largest](double, double, double gap) { largest = std::max(largest, gap); });
  return largest;
}

}  // namespace headcount::results
