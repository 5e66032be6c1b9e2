// See curves.h.

#include "server/results/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/certify.h"
#include "server/results/cross_fit.h"
#include "server/results/curve_intervals.h"
#include "server/results/curve_summary.h"
#include "server/results/in_sample.h"
#include "server/results/perplexity.h"
#include "server/results/polyline.h"
#include "server/results/rule_index.h"
#include "server/results/statistics.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What lm-evaluation-harness prints beside the accuracy: pooled over subtasks where there are
// several.
double AccuracyStandardError(const RuleOutcomes& rule, const Subtasks& subtasks) {
  std::vector<int64_t> documents(static_cast<size_t>(subtasks.count), 0);
  std::vector<int64_t> correct(static_cast<size_t>(subtasks.count), 0);
  for (size_t d = 0; d < rule.documents.size(); ++d) {
    if (!rule.documents[d]) continue;
    const auto subtask = static_cast<size_t>(subtasks.of_document[d]);
    ++documents[subtask];
    correct[subtask] += rule.documents[d]->decision.correct ? 1 : 0;
  }
  std::vector<GroupPart> parts;
  for (size_t s = 0; s < documents.size(); ++s) {
    if (documents[s] == 0) continue;
    parts.push_back({documents[s], StandardErrorOfShare(correct[s], documents[s])});
  }
  if (parts.size() == 1) return parts.front().standard_error;
  return PooledStandardError(parts);
}

// Accuracy and share over the documents of a rule.
void FillOwn(const v1::Manifest& manifest, const Subtasks& subtasks, const RuleOutcomes& rule,
             v1::CurvePoint* point) {
  int64_t documents = 0;
  int64_t finite = 0;
  int64_t correct = 0;
  int64_t correct_norm = 0;
  int64_t correct_finite = 0;
  double share = 0;
  for (const std::optional<DocumentOutcome>& document : rule.documents) {
    if (!document) continue;
    ++documents;
    share += document->share_zeroed;
    correct += document->decision.correct ? 1 : 0;
    correct_norm += document->decision.correct_norm ? 1 : 0;
    finite += document->decision.finite ? 1 : 0;
    correct_finite += document->decision.finite && document->decision.correct ? 1 : 0;
  }
  const auto mean = [](auto sum, int64_t n) {
    return n > 0 ? static_cast<double>(sum) / static_cast<double>(n) : kNaN;
  };
  const bool has_norm = std::find(manifest.metrics().begin(), manifest.metrics().end(),
                                  "acc_norm") != manifest.metrics().end();
  // Prompts of a score job need not have a right answer.
  const bool has_gold =
      !IsRolling(manifest) &&
      (std::any_of(manifest.documents().begin(), manifest.documents().end(),
                   [](const v1::ManifestDocument& document) { return document.gold() >= 0; }) ||
       std::any_of(rule.documents.begin(), rule.documents.end(),
                   [](const auto& document) { return document && document->decision.answered; }));
  point->set_documents(documents);
  point->set_share_zeroed(mean(share, documents));
  point->set_accuracy(has_gold ? mean(correct, documents) : kNaN);
  point->set_accuracy_norm(has_gold && has_norm ? mean(correct_norm, documents) : kNaN);
  point->set_standard_error(has_gold ? AccuracyStandardError(rule, subtasks) : kNaN);
  point->set_non_finite_documents(documents - finite);
  point->set_accuracy_finite(has_gold ? mean(correct_finite, finite) : kNaN);
}

// The comparison with the baseline over the documents that both have.
void FillPaired(const Subtasks& subtasks, const RuleOutcomes& baseline, const RuleOutcomes& rule,
                v1::CurvePoint* point) {
  std::vector<double> differences;
  std::vector<int32_t> clusters;
  int64_t to_wrong = 0;
  int64_t to_right = 0;
  std::vector<double> gold_changes;
  std::vector<int32_t> gold_clusters;
  for (size_t d = 0; d < rule.documents.size(); ++d) {
    if (!rule.documents[d] || !baseline.documents[d]) continue;
    const DocumentOutcome& now = *rule.documents[d];
    const DocumentOutcome& before = *baseline.documents[d];
    const int difference = (now.decision.correct ? 1 : 0) - (before.decision.correct ? 1 : 0);
    differences.push_back(difference);
    clusters.push_back(subtasks.of_document[d]);
    to_wrong += difference < 0 ? 1 : 0;
    to_right += difference > 0 ? 1 : 0;
    const double change = now.gold_log_likelihood - before.gold_log_likelihood;
    if (std::isfinite(change)) {
      gold_changes.push_back(change);
      gold_clusters.push_back(subtasks.of_document[d]);
    }
  }
  const PairedDifference paired = ComparePaired(differences, clusters, subtasks.count);
  point->set_difference(paired.mean);
  point->set_difference_standard_error(paired.standard_error);
  point->set_difference_standard_error_iid(paired.standard_error_iid);
  point->set_mcnemar_p(differences.empty() ? kNaN : McNemarExactP(to_wrong, to_right));
  point->set_flips_to_wrong(to_wrong);
  point->set_flips_to_right(to_right);
  point->set_difference_low(paired.low);
  point->set_difference_high(paired.high);
  point->set_difference_p(paired.p);
  const auto n = static_cast<int64_t>(differences.size());
  point->set_certificate_bound(CertificateBound(paired.low, to_wrong, to_right, n));
  point->set_smallest_margin(
      SmallestMargin(to_wrong + to_right, n, paired.standard_error, paired.standard_error_iid));
  const PairedDifference gold = ComparePaired(gold_changes, gold_clusters, subtasks.count);
  point->set_gold_log_likelihood_change(gold.mean);
  point->set_gold_log_likelihood_change_standard_error(gold.standard_error);
  point->set_gold_log_likelihood_change_low(gold.low);
  point->set_gold_log_likelihood_change_high(gold.high);
}

// Where the metric is no share of right answers: its value in the place of the accuracy, and of all
// that is made of it.
void ShowPerplexity(const std::string& metric, const v1::Manifest& manifest,
                    const RuleOutcomes& rule, v1::CurvePoint* point) {
  if (!IsPerplexity(metric)) return;
  point->set_perplexity(Perplexity(metric, manifest, rule));
  point->set_accuracy(kNaN);
  point->set_standard_error(kNaN);
  point->set_accuracy_finite(kNaN);
  point->set_difference(kNaN);
  point->set_difference_standard_error(kNaN);
  point->set_difference_standard_error_iid(kNaN);
  point->set_difference_low(kNaN);
  point->set_difference_high(kNaN);
  point->set_difference_p(kNaN);
  point->set_difference_p_holm(kNaN);
  point->set_mcnemar_p(kNaN);
  point->set_mcnemar_p_holm(kNaN);
  point->set_flips_to_wrong(0);
  point->set_flips_to_right(0);
  point->set_certificate_bound(kNaN);
  point->set_smallest_margin(kNaN);
}

// In percent, as published curves are.
std::vector<Point> Polyline(const v1::Curve& curve) {
  std::vector<Point> points;
  for (const v1::CurvePoint& point : curve.points()) {
    if (Counts(point)) points.push_back({100 * point.share_zeroed(), 100 * point.accuracy()});
  }
  return SortedByX(points);
}

void SumUp(const CurveSummary& summary, double margin, v1::Curve* curve) {
  curve->set_auc(summary.of(CurveMetric::kAuc));
  curve->set_auc_common(summary.of(CurveMetric::kAucCommon));
  curve->set_auc_10(summary.of(CurveMetric::kAuc10));
  curve->set_largest_share(summary.within.largest / 100);
  curve->set_at_least(summary.within.at_least);
  curve->set_first_crossing(summary.within.first_crossing / 100);
  double certified = curve->points_size() > 0 && Counts(curve->points(0)) ? 0 : kNaN;
  for (const v1::CurvePoint& point : curve->points()) {
    if (!Counts(point) || !(100 * point.certificate_bound() > -margin)) continue;
    certified = std::max(certified, point.share_zeroed());
  }
  curve->set_certified_share(certified);
}

// Adjusts the p values of all points that are compared with the baseline together.
void AdjustForMany(v1::Curves* curves) {
  std::vector<v1::CurvePoint*> points;
  std::vector<double> clustered;
  std::vector<double> exact;
  for (v1::Curve& curve : *curves->mutable_curves()) {
    for (v1::CurvePoint& point : *curve.mutable_points()) {
      if (point.rule() == kBaselineRule) continue;
      points.push_back(&point);
      clustered.push_back(point.difference_p());
      exact.push_back(point.mcnemar_p());
    }
  }
  const std::vector<double> clustered_holm = HolmAdjusted(clustered);
  const std::vector<double> exact_holm = HolmAdjusted(exact);
  for (size_t i = 0; i < points.size(); ++i) {
    points[i]->set_difference_p_holm(clustered_holm[i]);
    points[i]->set_mcnemar_p_holm(exact_holm[i]);
  }
}

absl::StatusOr<double> Margin(const v1::GetCurvesRequest& request) {
  const double margin = request.margin_points();
  if (!(margin >= 0 && margin <= 100)) {
    return InvalidField("margin_points", absl::StrCat(margin), "must be from 0 to 100");
  }
  return margin == 0 ? kDefaultMarginPoints : margin;
}

absl::StatusOr<int> MetricIndex(const v1::GetCurvesRequest& request, const v1::Manifest& manifest) {
  if (request.metric().empty()) return 0;
  const auto& metrics = manifest.metrics();
  const auto found = std::find(metrics.begin(), metrics.end(), request.metric());
  if (found != metrics.end()) return static_cast<int>(found - metrics.begin());
  return InvalidField("metric", request.metric(),
                      absl::StrCat("the job's task has ", absl::StrJoin(metrics, "; ")));
}

// What every step of GetCurves needs.
struct Context {
  const JobResults& results;
  const v1::Manifest& manifest;
  const Subtasks& subtasks;
  const std::string& metric;
  CurveCache* cache;  // or null
};

absl::StatusOr<std::shared_ptr<const RuleOutcomes>> ReadBaseline(OutcomeReader& reader,
                                                                 const JobResults& results,
                                                                 CurveCache* cache) {
  const std::string& uid = results.job.uid();
  if (cache != nullptr) {
    if (auto known = cache->Baseline(uid)) return known;
  }
  HC_ASSIGN_OR_RETURN(RuleOutcomes outcomes, reader.Baseline());
  auto baseline = std::make_shared<const RuleOutcomes>(std::move(outcomes));
  if (cache != nullptr && baseline->complete) cache->KeepBaseline(uid, baseline);
  return baseline;
}

// One point a rule of the block, for those that have any document.
absl::StatusOr<std::vector<v1::CurvePoint>> BlockPoints(OutcomeReader& reader,
                                                        const Context& context, int64_t block,
                                                        const RuleOutcomes& baseline) {
  const std::string& uid = context.results.job.uid();
  if (context.cache != nullptr) {
    if (auto known = context.cache->Block(uid, block)) return *std::move(known);
  }
  HC_ASSIGN_OR_RETURN(const std::vector<RuleOutcomes> outcomes, reader.RuleBlock(block));
  const v1::StagePlan& plan = context.results.ablate->plan;
  std::vector<v1::CurvePoint> points;
  bool complete = baseline.complete;
  for (const RuleOutcomes& rule : outcomes) {
    complete = complete && rule.complete;
    if (rule.stored == 0) continue;
    v1::CurvePoint& point =
        points.emplace_back(MakePoint(context.manifest, context.subtasks, baseline, rule));
    ShowPerplexity(context.metric, context.manifest, rule, &point);
    const v1::ResolvedRule& resolved = plan.rules(StageRule(plan, rule.shown_rule));
    point.set_nominal_fraction(resolved.nominal_fraction());
    point.set_threshold(ThresholdOf(resolved));
  }
  if (context.cache != nullptr && complete) context.cache->KeepBlock(uid, block, points);
  return points;
}

// A curve for each label, in the order in which labels first appear in the plan.
absl::Status AddCurves(OutcomeReader& reader, const Context& context, const RuleOutcomes& baseline,
                       v1::Curves* curves) {
  const v1::StagePlan& plan = context.results.ablate->plan;
  std::map<std::string, int> curve_of_label;
  for (int r = BaselineRules(plan); r < plan.rules_size(); ++r) {
    const std::string& label = plan.rules(r).label();
    if (!curve_of_label.emplace(label, curves->curves_size()).second) continue;
    v1::Curve* curve = curves->add_curves();
    curve->set_id(label);
    curve->set_metric(curves->metric());
    *curve->add_points() = curves->baseline();
  }
  for (int64_t block = 0; block < reader.rule_blocks(); ++block) {
    HC_ASSIGN_OR_RETURN(const std::vector<v1::CurvePoint> points,
                        BlockPoints(reader, context, block, baseline));
    for (const v1::CurvePoint& point : points) {
      const std::string& label = plan.rules(StageRule(plan, point.rule())).label();
      *curves->mutable_curves(curve_of_label.at(label))->add_points() = point;
    }
  }
  return absl::OkStatus();
}

// A curve of perplexities has no areas, and no share within a margin of accuracy.
void LeaveUnsummed(v1::Curves* curves) {
  curves->set_auc_common_limit(kNaN);
  for (v1::Curve& curve : *curves->mutable_curves()) {
    curve.set_auc(kNaN);
    curve.set_auc_common(kNaN);
    curve.set_auc_10(kNaN);
    curve.set_largest_share(kNaN);
    curve.set_first_crossing(kNaN);
    curve.set_certified_share(kNaN);
  }
}

// Sorts the points of every curve and sums them up.
void Finish(double margin, v1::Curves* curves) {
  std::vector<std::vector<Point>> polylines;
  for (v1::Curve& curve : *curves->mutable_curves()) {
    std::stable_sort(curve.mutable_points()->begin(), curve.mutable_points()->end(),
                     [](const v1::CurvePoint& a, const v1::CurvePoint& b) {
                       return a.share_zeroed() < b.share_zeroed();
                     });
    polylines.push_back(Polyline(curve));
  }
  if (IsPerplexity(curves->metric())) return LeaveUnsummed(curves);
  double limit = kNaN;
  const double floor = 100 * curves->baseline().accuracy() - margin;
  const std::vector<CurveSummary> summaries = SummariseCurves(polylines, floor, &limit);
  curves->set_auc_common_limit(limit / 100);
  for (int c = 0; c < curves->curves_size(); ++c) {
    SumUp(summaries[static_cast<size_t>(c)], margin, curves->mutable_curves(c));
  }
  AdjustForMany(curves);
}

}  // namespace

bool Counts(const v1::CurvePoint& point) {
  return point.complete() && point.documents() > 0 &&
         static_cast<double>(point.non_finite_documents()) <=
             kMostNonFinite * static_cast<double>(point.documents());
}

Subtasks SubtasksOf(const v1::Manifest& manifest) {
  Subtasks subtasks;
  std::map<std::string, int32_t> index;
  for (const v1::ManifestDocument& document : manifest.documents()) {
    const auto [at, added] = index.emplace(document.subtask(), subtasks.count);
    subtasks.count += added ? 1 : 0;
    subtasks.of_document.push_back(at->second);
  }
  return subtasks;
}

v1::CurvePoint MakePoint(const v1::Manifest& manifest, const Subtasks& subtasks,
                         const RuleOutcomes& baseline, const RuleOutcomes& rule) {
  v1::CurvePoint point;
  point.set_rule(rule.shown_rule);
  point.set_complete(rule.complete);
  point.set_perplexity(kNaN);
  FillOwn(manifest, subtasks, rule, &point);
  FillPaired(subtasks, baseline, rule, &point);
  return point;
}

double ThresholdOf(const v1::ResolvedRule& rule) {
  switch (rule.select_case()) {
    case v1::ResolvedRule::kThreshold:
      return double{rule.threshold().value()};
    case v1::ResolvedRule::kRandom:
      return rule.random().p();
    default:
      return kNaN;
  }
}

v1::Curve BaselineCurve(const v1::Curves& curves) {
  v1::Curve curve;
  curve.set_id("baseline");
  curve.set_metric(curves.metric());
  *curve.add_points() = curves.baseline();
  const std::vector<std::vector<Point>> polylines = {Polyline(curve)};
  SumUp(SummariseCurves(polylines, kNaN).front(), curves.margin_points(), &curve);
  return curve;
}

absl::StatusOr<v1::Curves> GetCurves(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                     const v1::GetCurvesRequest& request, CurveCache* cache) {
  HC_ASSIGN_OR_RETURN(const double margin, Margin(request));
  HC_RETURN_IF_ERROR(CheckDraws(request));
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, request.job()));
  if (results.job.has_probe()) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(request.job(), " is a probe, which has no curves")),
                      "NO_CURVES");
  }
  if (results.manifest_digest.empty()) return ResultsNotReady(request.job(), "results");
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Manifest> manifest,
                      ReadManifest(artifacts, results.manifest_digest));
  HC_ASSIGN_OR_RETURN(const int metric, MetricIndex(request, *manifest));
  if (metric != 0) cache = nullptr;  // it remembers what is asked for most
  OutcomeReader reader(jobs, artifacts, results, *manifest, metric);
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const RuleOutcomes> baseline,
                      ReadBaseline(reader, results, cache));
  if (baseline->stored == 0) return ResultsNotReady(request.job(), "results");

  const Subtasks subtasks = SubtasksOf(*manifest);
  v1::Curves curves;
  curves.set_margin_points(margin);
  curves.set_metric(manifest->metrics_size() > 0 ? manifest->metrics(metric) : "acc");
  curves.set_documents(manifest->documents_size());
  curves.set_complete(results.complete());
  curves.set_in_sample(InSample(jobs, artifacts, results.job, *manifest));
  *curves.mutable_baseline() = MakePoint(*manifest, subtasks, *baseline, *baseline);
  ShowPerplexity(curves.metric(), *manifest, *baseline, curves.mutable_baseline());
  curves.mutable_baseline()->set_threshold(kNaN);
  if (results.ablate.has_value()) {
    const Context context{results, *manifest, subtasks, curves.metric(), cache};
    HC_RETURN_IF_ERROR(AddCurves(reader, context, *baseline, &curves));
  }
  Finish(margin, &curves);
  if (request.cross_fit() != 0) {
    HC_RETURN_IF_ERROR(CheckFolds(request.cross_fit(), manifest->documents_size()));
    if (IsPerplexity(curves.metric())) {
      return InvalidField("cross_fit", absl::StrCat(request.cross_fit()),
                          absl::StrCat("must be 0: ", curves.metric(),
                                       " is no share of right answers to be within a margin of"));
    }
    if (curves.complete()) {
      HC_RETURN_IF_ERROR(
          AddCrossFit(reader, results.job, subtasks, *baseline, request.cross_fit(), &curves));
    }
  }
  const bool summed = !IsPerplexity(curves.metric());
  if (request.bootstrap_draws() > 0 && curves.complete() && summed) {
    HC_RETURN_IF_ERROR(AddIntervals(reader, results, request, *baseline, cache, &curves));
  }
  return curves;
}

}  // namespace headcount::results
