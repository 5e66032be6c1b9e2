// What tables of scores say: a model's table 2 of arXiv 2504.03889, the scores' ranks by each
// metric of their curves, and how far the ranks of two models or tasks agree. The paper's curves
// and a user's own come through here. Pure; NaN where undefined.

#pragma once

#include <array>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "headcount/v1/result_service.pb.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::results {

inline constexpr std::array<const char*, 3> kRankedMetrics = {"auc", "auc_common", "auc_10"};

// What the tables are made from: one score's curve.
struct RankedCurve {
  std::string score;
  std::array<double, kRankedMetrics.size()> values{};  // of kRankedMetrics; NaN: missing
  double largest_share = 0;
};

// Of a Curve or a PublishedCurve.
template <typename CurveMessage>
RankedCurve RankedOf(const std::string& score, const CurveMessage& curve) {
  return {score, {curve.auc(), curve.auc_common(), curve.auc_10()}, curve.largest_share()};
}

// The scores that a sweep's curves are about, by id or a user's name; controls are none.
std::set<std::string> ScoresOf(const v1::SweepSpec& spec);
// The score in a curve's id, which may say after it what heads become ("entropy scale=0.5").
std::string ScoreOfCurve(const std::string& id);

// The first of equal shares wins.
v1::PublishedTable2 Table2(std::span<const RankedCurve> curves);

// Ranks of the curves by kRankedMetrics[metric], 1 the largest; what is missing (a curve that ends
// before 10 %) comes last.
std::vector<double> RanksBy(std::span<const RankedCurve> curves, size_t metric);

// Of the scores that both have: one agreement for each metric.
std::vector<v1::ModelAgreement> Agreements(const std::string& label_a,
                                           std::span<const RankedCurve> a,
                                           const std::string& label_b,
                                           std::span<const RankedCurve> b);

}  // namespace headcount::results
