// See score_table.h.

#include "server/results/score_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/catalog/scores.h"
#include "server/results/ranks.h"

namespace headcount::results {
namespace {

constexpr int kTop = 5;
constexpr const char* kFirstToken = "first_token_weight";

double Comparable(double value) {
  return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
}

}  // namespace

std::set<std::string> ScoresOf(const v1::SweepSpec& spec) {
  std::set<std::string> scores;
  for (const std::string& name : spec.scores()) {
    const auto score = catalog::FindScore(name);
    scores.insert(score.ok() ? (*score)->id : name);  // else a user's own
  }
  return scores;
}

std::string ScoreOfCurve(const std::string& id) { return id.substr(0, id.find(' ')); }

v1::PublishedTable2 Table2(std::span<const RankedCurve> curves) {
  v1::PublishedTable2 table;
  double best = -1;
  double best_other = -1;
  for (const RankedCurve& curve : curves) {
    const double share = curve.largest_share;
    if (share > best) {
      best = share;
      table.set_best_score(curve.score);
    }
    if (curve.score == kFirstToken) {
      table.set_first_token_weight(share);
    } else if (share > best_other) {
      best_other = share;
      table.set_best_other(curve.score);
      table.set_best_other_share(share);
    }
  }
  return table;
}

std::vector<double> RanksBy(std::span<const RankedCurve> curves, size_t metric) {
  std::vector<double> values;
  for (const RankedCurve& curve : curves) values.push_back(Comparable(curve.values[metric]));
  return RanksFromLargest(values);
}

std::vector<v1::ModelAgreement> Agreements(const std::string& label_a,
                                           std::span<const RankedCurve> a,
                                           const std::string& label_b,
                                           std::span<const RankedCurve> b) {
  std::vector<v1::ModelAgreement> agreements;
  for (size_t metric = 0; metric < kRankedMetrics.size(); ++metric) {
    std::vector<double> of_a;
    std::vector<double> of_b;
    for (const RankedCurve& curve : a) {
      const auto other = std::find_if(b.begin(), b.end(), [&](const RankedCurve& candidate) {
        return candidate.score == curve.score;
      });
      if (other == b.end()) continue;
      of_a.push_back(Comparable(curve.values[metric]));
      of_b.push_back(Comparable(other->values[metric]));
    }
    v1::ModelAgreement& agreement = agreements.emplace_back();
    agreement.set_a(label_a);
    agreement.set_b(label_b);
    agreement.set_metric(kRankedMetrics[metric]);
    agreement.set_spearman(Spearman(of_a, of_b));
    agreement.set_top5_overlap(TopOverlap(of_a, of_b, kTop));
  }
  return agreements;
}

}  // namespace headcount::results
