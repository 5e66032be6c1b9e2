// See curve_intervals.h.

#include "server/results/curve_intervals.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/bootstrap.h"
#include "server/results/curves.h"
#include "server/results/rule_index.h"

namespace headcount::results {
namespace {

constexpr const char* kMetricNames[kCurveMetrics] = {"auc", "auc_common", "auc_10",
                                                     "largest_share"};

// Sums work in percent; shares are shown in [0, 1].
double ShownScale(size_t metric) {
  return metric == static_cast<size_t>(CurveMetric::kLargestShare) ? .01 : 1;
}

RuleColumn ColumnOf(const RuleOutcomes& rule) {
  RuleColumn column;
  for (const auto& document : rule.documents) {
    column.correct.push_back(document.has_value() && document->decision.correct ? 1 : 0);
    column.share.push_back(document.has_value() ? static_cast<float>(document->share_zeroed) : 0);
  }
  return column;
}

// Which rules the curves are made of, by shown index, in the order of the curves.
struct Members {
  std::map<int, int> column_of;          // shown rule -> column
  std::vector<std::vector<int>> curves;  // columns
};

Members MembersOf(const v1::Curves& curves) {
  Members members;
  for (const v1::Curve& curve : curves.curves()) {
    std::vector<int>& columns = members.curves.emplace_back();
    for (const v1::CurvePoint& point : curve.points()) {
      if (point.rule() == kBaselineRule || !Counts(point)) continue;
      columns.push_back(static_cast<int>(members.column_of.size()));
      members.column_of.emplace(point.rule(), columns.back());
    }
  }
  return members;
}

absl::StatusOr<std::vector<RuleColumn>> ReadColumns(OutcomeReader& reader, const Members& members) {
  std::vector<RuleColumn> columns(members.column_of.size());
  for (int64_t block = 0; block < reader.rule_blocks(); ++block) {
    HC_ASSIGN_OR_RETURN(const std::vector<RuleOutcomes> rules, reader.RuleBlock(block));
    for (const RuleOutcomes& rule : rules) {
      const auto at = members.column_of.find(rule.shown_rule);
      if (at != members.column_of.end()) {
        columns[static_cast<size_t>(at->second)] = ColumnOf(rule);
      }
    }
  }
  return columns;
}

void Show(const Bounds& bounds, double scale, v1::Interval* interval) {
  interval->set_low(bounds.low * scale);
  interval->set_high(bounds.high * scale);
}

double PointEstimate(const v1::Curve& curve, size_t metric) {
  const double values[kCurveMetrics] = {curve.auc(), curve.auc_common(), curve.auc_10(),
                                        curve.largest_share()};
  return values[metric];
}

void ShowAll(const Bootstrap& bootstrap, v1::Curves* curves) {
  for (size_t c = 0; c < bootstrap.curves.size(); ++c) {
    v1::Curve* curve = curves->mutable_curves(static_cast<int>(c));
    const CurveIntervals& intervals = bootstrap.curves[c];
    for (size_t m = 0; m < kCurveMetrics; ++m) {
      v1::MetricEstimate* estimate = curve->add_estimates();
      estimate->set_metric(kMetricNames[m]);
      estimate->set_value(PointEstimate(*curve, m));
      Show(intervals.bounds[m], ShownScale(m), estimate->mutable_interval());
      estimate->set_rank(intervals.ranks[m]);
      Show(intervals.rank_bounds[m], 1, estimate->mutable_rank_interval());
    }
  }
  for (const CurveDifference& pair : bootstrap.differences) {
    v1::CurveDifference* difference = curves->add_differences();
    difference->set_a(curves->curves(pair.a).id());
    difference->set_b(curves->curves(pair.b).id());
    for (size_t m = 0; m < kCurveMetrics; ++m) {
      v1::MetricEstimate* estimate = difference->add_metrics();
      estimate->set_metric(kMetricNames[m]);
      estimate->set_value(pair.mean[m] * ShownScale(m));
      Show(pair.bounds[m], ShownScale(m), estimate->mutable_interval());
    }
  }
}

}  // namespace

absl::Status CheckDraws(const v1::GetCurvesRequest& request) {
  if (request.bootstrap_draws() >= 0 && request.bootstrap_draws() <= kMostDraws) {
    return absl::OkStatus();
  }
  return InvalidField("bootstrap_draws", absl::StrCat(request.bootstrap_draws()),
                      absl::StrCat("must be from 0 to ", kMostDraws));
}

absl::Status AddIntervals(OutcomeReader& reader, const JobResults& results,
                          const v1::GetCurvesRequest& request, const RuleOutcomes& baseline,
                          CurveCache* cache, v1::Curves* curves) {
  const std::string& uid = results.job.uid();
  const std::string key = absl::StrCat(request.bootstrap_draws(), "/", request.bootstrap_seed(),
                                       "/", curves->margin_points());
  std::shared_ptr<const Bootstrap> known = cache == nullptr ? nullptr : cache->Intervals(uid, key);
  if (known == nullptr) {
    if (curves->curves_size() > kMostCurves) {
      return InvalidField("bootstrap_draws", absl::StrCat(request.bootstrap_draws()),
                          absl::StrCat("the job has ", curves->curves_size(),
                                       " curves; intervals are for at most ", kMostCurves));
    }
    Members members = MembersOf(*curves);
    const auto documents = static_cast<int64_t>(baseline.documents.size());
    const auto rules = static_cast<int64_t>(members.column_of.size());
    if (documents * rules > kMostCells / request.bootstrap_draws()) {
      return InvalidField("bootstrap_draws", absl::StrCat(request.bootstrap_draws()),
                          absl::StrCat("times ", documents, " documents x ", rules,
                                       " rules must be at most ", kMostCells));
    }
    BootstrapInput input;
    input.baseline = ColumnOf(baseline);
    HC_ASSIGN_OR_RETURN(input.rules, ReadColumns(reader, members));
    input.curves = std::move(members.curves);
    input.margin_points = curves->margin_points();
    input.draws = request.bootstrap_draws();
    input.seed = request.bootstrap_seed();
    known = std::make_shared<const Bootstrap>(BootstrapCurves(input));
    if (cache != nullptr) cache->KeepIntervals(uid, key, known);
  }
  ShowAll(*known, curves);
  curves->set_bootstrap_draws(request.bootstrap_draws());
  curves->set_bootstrap_seed(request.bootstrap_seed());
  return absl::OkStatus();
}

}  // namespace headcount::results
