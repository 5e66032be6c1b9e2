// Intervals of everything that is read off accuracy curves, by a paired bootstrap over documents:
// each draw takes as many documents as there are, with replacement, and computes the baseline and
// every curve on these same documents, so what is common to the curves cancels in their
// differences.
//
// Random numbers: std::mt19937_64 (fully specified by the standard) from the seed; document index =
// high word of (number x documents). Equal input and seed give equal intervals on every machine.
// Percentile intervals, quantiles as numpy's default, over the draws in which the number is
// defined.
//
// Pure function, thread-safe. Time: draws x documents x rules, about 2 ns each.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "server/results/certify.h"
#include "server/results/curve_summary.h"

namespace headcount::results {

inline constexpr int kDefaultDraws = 2'000;

// What a draw needs of one rule (or the baseline), by document.
struct RuleColumn {
  std::vector<uint8_t> correct;  // 0 or 1
  std::vector<float> share;      // of heads zeroed, [0, 1]; empty: none anywhere
};

struct BootstrapInput {
  RuleColumn baseline;
  std::vector<RuleColumn> rules;
  std::vector<std::vector<int>> curves;  // indices of the rules of each; the baseline is in all
  double margin_points = 1;
  int draws = kDefaultDraws;
  uint64_t seed = 0;
};

using MetricBounds = std::array<Bounds, kCurveMetrics>;

struct CurveDifference {
  int a = 0;  // curves, a < b
  int b = 0;
  std::array<double, kCurveMetrics> mean{};  // a less b, of all documents as they are
  MetricBounds bounds{};
};

struct CurveIntervals {
  std::array<double, kCurveMetrics> ranks{};  // 1: the largest, among curves that have the number
  MetricBounds bounds{};
  MetricBounds rank_bounds{};
};

struct Bootstrap {
  std::vector<CurveIntervals> curves;
  std::vector<CurveDifference> differences;  // every pair
};

Bootstrap BootstrapCurves(const BootstrapInput& input);

}  // namespace headcount::results
