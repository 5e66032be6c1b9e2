// See curve_events.h.

#include "server/plan/curve_events.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/plan/cutter.h"
#include "server/results/rule_index.h"

namespace headcount::plan {
namespace {

constexpr int kParts = 8;

// Prompts without right answers give no accuracy, and a few prompts no curve.
bool HasAnswers(const v1::Job& job) {
  if (job.has_probe()) return false;
  for (const v1::InlineRequest& request : job.score().workload().requests().requests()) {
    if (!request.has_gold()) return false;
  }
  return true;
}

v1::CurvePointChanged NewPoint(const v1::StagePlan& plan, int stage_rule) {
  v1::CurvePointChanged point;
  point.set_total_documents(plan.documents());
  if (plan.rules().empty()) {
    point.set_rule(results::kBaselineRule);
    point.set_curve("baseline");
    return point;
  }
  const v1::ResolvedRule& rule = plan.rules(stage_rule);
  point.set_rule(results::ShownRule(plan, stage_rule));
  point.set_curve(rule.label());
  point.set_nominal_fraction(rule.nominal_fraction());
  return point;
}

}  // namespace

CurveEvents::CurveEvents(store::JobStore& jobs) : jobs_(jobs) {}

absl::Status CurveEvents::Append(const v1::Job& job, const store::StageRecord& stage,
                                 std::optional<int64_t> unit) {
  if (stage.stage == store::Stage::kPrepare || !HasAnswers(job)) return absl::OkStatus();
  if (!stage.plan.units().empty()) {
    // Such a stage grows look by look: its points are brought when a look is complete.
    return unit.has_value() ? absl::OkStatus() : AppendListed(job, stage);
  }
  const int64_t blocks = stage.plan.sample_blocks_size();
  if (unit.has_value()) return AppendBlock(job, stage, *unit / blocks);
  for (int64_t block = 0; block < UnitCount(stage.plan) / blocks; ++block) {
    HC_RETURN_IF_ERROR(AppendBlock(job, stage, block));
  }
  return absl::OkStatus();
}

absl::Status CurveEvents::AppendListed(const v1::Job& job, const store::StageRecord& stage) {
  HC_ASSIGN_OR_RETURN(const std::vector<store::ChunkRecord> chunks,
                      jobs_.ListChunks(job.name(), stage.stage, 0, stage.plan.units_size()));
  std::map<int, v1::RuleCounts> totals;
  for (const store::ChunkRecord& chunk : chunks) {
    for (const v1::RuleCounts& counts : chunk.counts.rules()) {
      v1::RuleCounts& total = totals[counts.rule()];
      total.set_documents(total.documents() + counts.documents());
      total.set_correct(total.correct() + counts.correct());
      total.set_share_sum(total.share_sum() + counts.share_sum());
    }
  }
  for (const auto& [rule, total] : totals) {
    if (total.documents() == 0 || rule < 0 || rule >= stage.plan.rules_size()) continue;
    v1::CurvePointChanged point = NewPoint(stage.plan, results::StageRule(stage.plan, rule));
    const auto documents = static_cast<double>(total.documents());
    point.set_documents(total.documents());
    point.set_accuracy(static_cast<double>(total.correct()) / documents);
    point.set_share_zeroed(total.share_sum() / documents);
    point.set_final(total.documents() == stage.plan.documents());
    // Counts only grow, so they say which look this is.
    HC_RETURN_IF_ERROR(AppendPoint(job.name(), point, static_cast<int>(total.documents())));
  }
  return absl::OkStatus();
}

absl::Status CurveEvents::AppendBlock(const v1::Job& job, const store::StageRecord& stage,
                                      int64_t rule_block) {
  const v1::StagePlan& plan = stage.plan;
  const int blocks = plan.sample_blocks_size();
  const int64_t first_unit = rule_block * blocks;
  HC_ASSIGN_OR_RETURN(const std::vector<store::ChunkRecord> chunks,
                      jobs_.ListChunks(job.name(), stage.stage, first_unit, blocks));

  const int first_rule = static_cast<int>(rule_block) * plan.rules_per_unit();
  const int rules =
      plan.rules().empty() ? 1 : std::min(plan.rules_per_unit(), plan.rules_size() - first_rule);
  std::vector<v1::CurvePointChanged> points;
  for (int i = 0; i < rules; ++i) points.push_back(NewPoint(plan, first_rule + i));

  std::vector<double> shares(rules, 0);
  std::vector<int64_t> correct(rules, 0);
  int done = 0;
  for (const store::ChunkRecord& chunk : chunks) {
    if (chunk.unit >= first_unit + blocks) break;
    ++done;
    for (const v1::RuleCounts& counts : chunk.counts.rules()) {
      const int i = counts.rule() - points.front().rule();
      if (i < 0 || i >= rules) continue;
      points[i].set_documents(points[i].documents() + counts.documents());
      correct[i] += counts.correct();
      shares[i] += counts.share_sum();
    }
  }
  const int eighth = kParts * done / blocks;
  if (eighth == 0) return absl::OkStatus();
  for (int i = 0; i < rules; ++i) {
    if (points[i].documents() == 0) continue;
    const auto documents = static_cast<double>(points[i].documents());
    points[i].set_accuracy(static_cast<double>(correct[i]) / documents);
    points[i].set_share_zeroed(shares[i] / documents);
    points[i].set_final(done == blocks);
    HC_RETURN_IF_ERROR(AppendPoint(job.name(), points[i], eighth));
  }
  return absl::OkStatus();
}

absl::Status CurveEvents::AppendPoint(const std::string& job, const v1::CurvePointChanged& point,
                                      int eighth) {
  const std::pair key(job, point.rule());
  {
    std::lock_guard lock(mutex_);
    const auto known = stored_.find(key);
    if (known != stored_.end() && known->second >= eighth) return absl::OkStatus();
  }
  v1::JobEvent event;
  *event.mutable_curve_point() = point;
  HC_RETURN_IF_ERROR(
      jobs_.AppendEvent(job, event, absl::StrCat("curve/", point.rule(), "/", eighth)).status());
  std::lock_guard lock(mutex_);
  int& known = stored_[key];
  known = std::max(known, eighth);
  return absl::OkStatus();
}

void CurveEvents::Forget(const std::string& job) {
  std::lock_guard lock(mutex_);
  std::erase_if(stored_, [&job](const auto& entry) { return entry.first.first == job; });
}

}  // namespace headcount::plan
