// See bootstrap.h.

#include "server/results/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "server/results/quantiles.h"
#include "server/results/ranks.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kLanes = 8;  // draws at once, so that the loop over documents vectorises

using Lanes = std::array<double, kLanes>;

// How often each document is in each of kLanes draws: [document][lane].
std::vector<double> DrawCounts(size_t documents, std::mt19937_64& random) {
  std::vector<double> counts(documents * kLanes, 0);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t d = 0; d < documents; ++d) {
      const auto index =
          static_cast<size_t>((static_cast<unsigned __int128>(random()) * documents) >> 64);
      counts[index * kLanes + lane] += 1;
    }
  }
  return counts;
}

// Weighted sums of a column in each lane.
template <typename Value>
Lanes Sums(const std::vector<double>& counts, const std::vector<Value>& values) {
  Lanes sums{};
  const double* count = counts.data();
  for (const Value value : values) {
    const double x = value;
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += count[lane] * x;
    count += kLanes;
  }
  return sums;
}

struct RulePoints {
  Lanes share{};
  Lanes accuracy{};
};

RulePoints PointsOf(const std::vector<double>& counts, const RuleColumn& column, double documents) {
  RulePoints points{Sums(counts, column.share), Sums(counts, column.correct)};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    points.share[lane] *= 100 / documents;
    points.accuracy[lane] *= 100 / documents;
  }
  return points;
}

std::vector<CurveSummary> SummariseLane(const BootstrapInput& input, const RulePoints& baseline,
                                        const std::vector<RulePoints>& rules, size_t lane) {
  std::vector<std::vector<Point>> polylines;
  for (const std::vector<int>& curve : input.curves) {
    std::vector<Point> points = {{baseline.share[lane], baseline.accuracy[lane]}};
    for (const int r : curve) {
      const RulePoints& rule = rules[static_cast<size_t>(r)];
      points.push_back({rule.share[lane], rule.accuracy[lane]});
    }
    polylines.push_back(SortedByX(points));
  }
  return SummariseCurves(polylines, baseline.accuracy[lane] - input.margin_points);
}

// Of each metric the curves' ranks, NaN for those that do not have it.
std::vector<std::array<double, kCurveMetrics>> RanksOf(const std::vector<CurveSummary>& curves) {
  std::vector<std::array<double, kCurveMetrics>> ranks(curves.size());
  for (size_t m = 0; m < kCurveMetrics; ++m) {
    std::vector<double> values;
    std::vector<size_t> of;
    for (size_t c = 0; c < curves.size(); ++c) {
      ranks[c][m] = kNaN;
      if (std::isnan(curves[c].values[m])) continue;
      values.push_back(curves[c].values[m]);
      of.push_back(c);
    }
    const std::vector<double> ranked = RanksFromLargest(values);
    for (size_t i = 0; i < of.size(); ++i) ranks[of[i]][m] = ranked[i];
  }
  return ranks;
}

// The values of one number over the draws.
class Draws {
 public:
  void Add(double value) {
    if (!std::isnan(value)) values_.push_back(value);
  }
  Bounds Percentiles() {
    if (values_.empty()) return {kNaN, kNaN};
    std::sort(values_.begin(), values_.end());
    return {At((1 - kIntervalLevel) / 2), At((1 + kIntervalLevel) / 2)};
  }

 private:
  double At(double q) const {
    const Interpolation at = AtQuantile(q, static_cast<int64_t>(values_.size()));
    return at.Between(values_[static_cast<size_t>(at.lower)],
                      values_[static_cast<size_t>(at.upper)]);
  }

  std::vector<double> values_;
};

using MetricDraws = std::array<Draws, kCurveMetrics>;

MetricBounds BoundsOf(MetricDraws& draws) {
  MetricBounds bounds;
  for (size_t m = 0; m < kCurveMetrics; ++m) bounds[m] = draws[m].Percentiles();
  return bounds;
}

// All draws of all numbers.
class Collector {
 public:
  explicit Collector(size_t curves)
      : curves_(curves), values_(curves), ranks_(curves), pairs_(curves * (curves - 1) / 2) {}

  void Add(const std::vector<CurveSummary>& drawn) {
    const auto ranks = RanksOf(drawn);
    size_t pair = 0;
    for (size_t a = 0; a < curves_; ++a) {
      for (size_t m = 0; m < kCurveMetrics; ++m) {
        values_[a][m].Add(drawn[a].values[m]);
        ranks_[a][m].Add(ranks[a][m]);
      }
      for (size_t b = a + 1; b < curves_; ++b, ++pair) {
        for (size_t m = 0; m < kCurveMetrics; ++m) {
          pairs_[pair][m].Add(drawn[a].values[m] - drawn[b].values[m]);
        }
      }
    }
  }

  Bootstrap Finish(const std::vector<CurveSummary>& whole) {
    Bootstrap result;
    const auto ranks = RanksOf(whole);
    size_t pair = 0;
    for (size_t a = 0; a < curves_; ++a) {
      result.curves.push_back({ranks[a], BoundsOf(values_[a]), BoundsOf(ranks_[a])});
      for (size_t b = a + 1; b < curves_; ++b, ++pair) {
        CurveDifference& difference = result.differences.emplace_back();
        difference.a = static_cast<int>(a);
        difference.b = static_cast<int>(b);
        for (size_t m = 0; m < kCurveMetrics; ++m) {
          difference.mean[m] = whole[a].values[m] - whole[b].values[m];
        }
        difference.bounds = BoundsOf(pairs_[pair]);
      }
    }
    return result;
  }

 private:
  const size_t curves_;
  std::vector<MetricDraws> values_;
  std::vector<MetricDraws> ranks_;
  std::vector<MetricDraws> pairs_;
};

std::vector<RulePoints> AllPoints(const std::vector<double>& counts, const BootstrapInput& input,
                                  double documents) {
  std::vector<RulePoints> rules;
  for (const RuleColumn& rule : input.rules) rules.push_back(PointsOf(counts, rule, documents));
  return rules;
}

}  // namespace

Bootstrap BootstrapCurves(const BootstrapInput& input) {
  if (input.curves.empty()) return {};
  const size_t n = input.baseline.correct.size();
  const auto documents = static_cast<double>(n);
  const std::vector<double> once(n * kLanes, 1);
  const std::vector<CurveSummary> whole = SummariseLane(
      input, PointsOf(once, input.baseline, documents), AllPoints(once, input, documents), 0);
  Collector collector(input.curves.size());
  std::mt19937_64 random(input.seed);
  for (int done = 0; done < input.draws; done += static_cast<int>(kLanes)) {
    const std::vector<double> counts = DrawCounts(n, random);
    const RulePoints baseline = PointsOf(counts, input.baseline, documents);
    const std::vector<RulePoints> rules = AllPoints(counts, input, documents);
    const int lanes = std::min(static_cast<int>(kLanes), input.draws - done);
    for (int lane = 0; lane < lanes; ++lane) {
      collector.Add(SummariseLane(input, baseline, rules, static_cast<size_t>(lane)));
    }
  }
  return collector.Finish(whole);
}

}  // namespace headcount::results
