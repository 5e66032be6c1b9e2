// See knockout.h.

#include "server/results/knockout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "server/results/curves.h"
#include "server/results/job_results.h"
#include "server/results/ranks.h"
#include "server/results/rule_index.h"
#include "server/results/rule_outcomes.h"
#include "server/results/score_means.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One more than the largest index that a rule zeroes.
void FindShape(const v1::StagePlan& plan, v1::Knockout* answer) {
  for (const v1::ResolvedRule& rule : plan.rules()) {
    for (const v1::Head& head : rule.fixed_heads().heads()) {
      answer->set_layers(std::max(answer->layers(), head.layer() + 1));
      answer->set_heads(std::max(answer->heads(), head.head() + 1));
    }
  }
}

void FillWithNothing(v1::Knockout* answer) {
  const int heads = answer->layers() * answer->heads();
  for (auto* values :
       {answer->mutable_change(), answer->mutable_standard_error(), answer->mutable_low(),
        answer->mutable_high(), answer->mutable_accuracy_change()}) {
    values->Resize(heads, kNaN);
  }
}

void AddHead(const v1::CurvePoint& point, const v1::Head& head, v1::Knockout* answer) {
  const int at = head.layer() * answer->heads() + head.head();
  answer->set_change(at, point.gold_log_likelihood_change());
  answer->set_standard_error(at, point.gold_log_likelihood_change_standard_error());
  answer->set_low(at, point.gold_log_likelihood_change_low());
  answer->set_high(at, point.gold_log_likelihood_change_high());
  answer->set_accuracy_change(at, point.difference());
}

// Every score against the damage of each head. A score says "active" where it lies on the other
// side of a threshold than inactive heads do.
absl::Status AddAgreements(store::JobStore& jobs, store::ArtifactStore& artifacts,
                           const std::string& score_job, v1::Knockout* answer) {
  std::vector<const catalog::Score*> scores;
  for (const catalog::Score& score : catalog::Scores()) {
    if (!score.is_random()) scores.push_back(&score);
  }
  HC_ASSIGN_OR_RETURN(const ScoreMeans means, ReadScoreMeans(jobs, artifacts, score_job, scores));
  if (means.heads != answer->heads() || means.layers < answer->layers()) {
    return WithReason(
        absl::FailedPreconditionError(
            absl::StrCat("score_job: ", score_job, " has ", means.layers, " layers x ", means.heads,
                         " heads, the knockout ", answer->layers(), " x ", answer->heads())),
        "SHAPE_DIFFERS");
  }
  for (size_t s = 0; s < scores.size(); ++s) {
    std::vector<double> activity;
    std::vector<double> damage;
    std::vector<uint8_t> harmful;
    const double sign = scores[s]->inactive == catalog::Inactive::kBelow ? 1 : -1;
    for (int head = 0; head < answer->change_size(); ++head) {
      const double mean = means.values[s][static_cast<size_t>(head)];
      if (!std::isfinite(answer->change(head)) || !std::isfinite(mean)) continue;
      activity.push_back(sign * mean);
      damage.push_back(-answer->change(head));
      harmful.push_back(answer->high(head) < 0 ? 1 : 0);
    }
    v1::ScoreAgreement& agreement = *answer->add_agreements();
    agreement.set_score(scores[s]->id);
    agreement.set_spearman(Spearman(activity, damage));
    agreement.set_auroc(AreaUnderRoc(activity, harmful));
    agreement.set_heads(static_cast<int>(activity.size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Knockout> GetKnockout(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                         const v1::GetKnockoutRequest& request) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, request.job()));
  if (!results.job.has_knockout()) return WrongKind(results.job, "knockout");
  if (!results.ablate.has_value()) return ResultsNotReady(request.job(), "knockouts");
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Manifest> manifest,
                      ReadManifest(artifacts, results.manifest_digest));
  OutcomeReader reader(jobs, artifacts, results, *manifest);
  HC_ASSIGN_OR_RETURN(const RuleOutcomes baseline, reader.Baseline());
  if (baseline.stored == 0) return ResultsNotReady(request.job(), "knockouts");

  const v1::StagePlan& plan = results.ablate->plan;
  const Subtasks subtasks = SubtasksOf(*manifest);
  v1::Knockout answer;
  FindShape(plan, &answer);
  FillWithNothing(&answer);
  *answer.mutable_baseline() = MakePoint(*manifest, subtasks, baseline, baseline);
  answer.set_documents(manifest->documents_size());
  answer.set_complete(results.complete());
  for (int64_t block = 0; block < reader.rule_blocks(); ++block) {
    HC_ASSIGN_OR_RETURN(const std::vector<RuleOutcomes> rules, reader.RuleBlock(block));
    for (const RuleOutcomes& rule : rules) {
      if (rule.stored == 0) continue;
      const v1::ResolvedRule& resolved = plan.rules(StageRule(plan, rule.shown_rule));
      const v1::CurvePoint point = MakePoint(*manifest, subtasks, baseline, rule);
      AddHead(point, resolved.fixed_heads().heads(0), &answer);
      if (point.gold_log_likelihood_change_high() < 0) {
        answer.set_harmful_heads(answer.harmful_heads() + 1);
      }
    }
  }
  const std::string& score_job =
      request.score_job().empty() ? results.job.knockout().score_job() : request.score_job();
  if (!score_job.empty()) {
    HC_RETURN_IF_ERROR(AddAgreements(jobs, artifacts, score_job, &answer));
  }
  return answer;
}

}  // namespace headcount::results
