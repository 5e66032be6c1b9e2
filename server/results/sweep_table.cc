// See sweep_table.h.

#include "server/results/sweep_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "server/results/child_name.h"
#include "server/results/curves.h"
#include "server/results/job_results.h"
#include "server/results/score_table.h"
#include "server/results/sweep_children.h"

namespace headcount::results {
namespace {

// Curves of the scores that the spec names, which controls are not.
std::vector<RankedCurve> Ranked(const v1::SweepSpec& spec, const v1::Curves& curves) {
  const std::set<std::string> scores = ScoresOf(spec);
  std::vector<RankedCurve> ranked;
  for (const v1::Curve& curve : curves.curves()) {
    const std::string score = ScoreOfCurve(curve.id());
    if (scores.contains(score)) ranked.push_back(RankedOf(score, curve));
  }
  return ranked;
}

// Many sides must fit into one answer.
void Shorten(v1::CurvePoint* point) {
  v1::CurvePoint kept;
  kept.set_rule(point->rule());
  kept.set_nominal_fraction(point->nominal_fraction());
  kept.set_threshold(point->threshold());
  kept.set_share_zeroed(point->share_zeroed());
  kept.set_accuracy(point->accuracy());
  kept.set_standard_error(point->standard_error());
  kept.set_difference(point->difference());
  kept.set_difference_low(point->difference_low());
  kept.set_difference_high(point->difference_high());
  kept.set_documents(point->documents());
  kept.set_complete(point->complete());
  *point = std::move(kept);
}

void AddResults(const v1::SweepSpec& spec, v1::Curves curves, v1::SweepSide* side) {
  if (curves.complete()) {
    const std::vector<RankedCurve> ranked = Ranked(spec, curves);
    *side->mutable_table2() = Table2(ranked);
    for (size_t metric = 0; metric < kRankedMetrics.size(); ++metric) {
      const std::vector<double> ranks = RanksBy(ranked, metric);
      for (size_t c = 0; c < ranked.size(); ++c) {
        (*(*side->mutable_ranks())[ranked[c].score].mutable_by())[kRankedMetrics[metric]] =
            ranks[c];
      }
    }
  }
  Shorten(curves.mutable_baseline());
  for (v1::Curve& curve : *curves.mutable_curves()) {
    for (v1::CurvePoint& point : *curve.mutable_points()) Shorten(&point);
  }
  *side->mutable_curves() = std::move(curves);
}

// What distinguishes each side from the others; a number where nothing does.
void SetLabels(bool models, bool tasks, v1::SweepTable* table) {
  std::map<std::string, int> seen;
  for (v1::SweepSide& side : *table->mutable_sides()) {
    std::vector<std::string> parts;
    if (models) parts.push_back(side.model());
    if (tasks || !models) parts.push_back(side.task());
    std::string label = absl::StrJoin(parts, " ");
    if (!side.calibrated_on().empty()) {
      absl::StrAppend(&label, " by ", side.calibrated_on());
    }
    if (const int times = ++seen[label]; times > 1) absl::StrAppend(&label, " #", times);
    side.set_label(label);
  }
}

void AddAgreements(const v1::SweepSpec& spec, const std::vector<bool>& transferred,
                   v1::SweepTable* table) {
  const auto takes_part = [&](int i) {
    return !transferred[static_cast<size_t>(i)] && table->sides(i).curves().complete();
  };
  for (int a = 0; a < table->sides_size(); ++a) {
    for (int b = a + 1; b < table->sides_size(); ++b) {
      if (!takes_part(a) || !takes_part(b)) continue;
      const v1::SweepSide& first = table->sides(a);
      const v1::SweepSide& second = table->sides(b);
      if ((first.model() == second.model()) == (first.task() == second.task())) continue;
      for (v1::ModelAgreement& agreement :
           Agreements(first.label(), Ranked(spec, first.curves()), second.label(),
                      Ranked(spec, second.curves()))) {
        *table->add_agreements() = std::move(agreement);
      }
    }
  }
}

// There is nothing of it to read yet, or never will be.
bool HasNoCurves(const absl::Status& status) {
  return absl::IsNotFound(status) || ReasonOf(status) == "RESULTS_NOT_READY";
}

}  // namespace

absl::StatusOr<v1::SweepTable> GetSweepTable(store::JobStore& jobs, const CurvesFn& curves,
                                             const v1::GetSweepTableRequest& request) {
  HC_ASSIGN_OR_RETURN(const v1::Job job, jobs.GetJob(request.job()));
  if (!job.has_sweep() || !HasChildren(job.sweep())) {
    return WrongKind(job, "sweep over several models or tasks");
  }
  v1::SweepTable table;
  bool complete = true;
  std::vector<bool> transferred;
  const std::vector<SweepChild> children = SweepChildren(job);
  for (int i = 0; i < static_cast<int>(children.size()); ++i) {
    const SweepChild& child = children[static_cast<size_t>(i)];
    if (!child.job.has_sweep()) continue;
    v1::SweepSide& side = *table.add_sides();
    side.set_job(ChildName(job.name(), i));
    side.set_model(format::WorkloadOf(child.job).model());
    side.set_task(TaskLabel(format::WorkloadOf(child.job)));
    side.set_calibrated_on(child.calibrated_on);
    transferred.push_back(child.transferred);

    v1::GetCurvesRequest ask;
    ask.set_job(side.job());
    ask.set_margin_points(request.margin_points());
    absl::StatusOr<v1::Curves> found = curves(ask);
    if (!found.ok() && !HasNoCurves(found.status())) return found.status();
    if (found.ok()) AddResults(job.sweep(), *std::move(found), &side);
    complete = complete && side.curves().complete();
  }
  table.set_complete(complete);
  table.set_margin_points(request.margin_points() == 0 ? kDefaultMarginPoints
                                                       : request.margin_points());
  SetLabels(!job.sweep().models().empty(), !job.sweep().tasks().empty(), &table);
  AddAgreements(job.sweep(), transferred, &table);
  return table;
}

}  // namespace headcount::results
