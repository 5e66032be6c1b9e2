// See validate.h.

#include "server/plan/validate.h"

#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/spec_checks.h"
#include "server/plan/user_scores.h"

namespace headcount::plan {
namespace {

constexpr int kMaxLabels = 64;
constexpr size_t kMaxLabelLength = 63;
constexpr int kMaxPriority = 100;

bool IsLabelText(std::string_view text) {
  if (text.size() > kMaxLabelLength) return false;
  for (char c : text) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!ok) return false;
  }
  return true;
}

absl::Status CheckLabels(const v1::Job& job) {
  if (job.labels_size() > kMaxLabels) {
    return InvalidField("labels", std::to_string(job.labels_size()),
                        absl::StrCat("must be at most ", kMaxLabels));
  }
  for (const auto& [key, value] : job.labels()) {
    if (key.empty() || !IsLabelText(key)) {
      return InvalidField("labels", key, "keys must be 1 to 63 of [a-z0-9_-]");
    }
    if (!IsLabelText(value)) {
      return InvalidField(absl::StrCat("labels[", key, "]"), value,
                          "must be at most 63 of [a-z0-9_-]");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScoreJob(const v1::ScoreSpec& spec, const ValidationContext& context) {
  HC_RETURN_IF_ERROR(CheckTokens(spec.tokens(), "score.tokens"));
  return CheckWorkload(spec.workload(), "score.workload", /*answers=*/false, context).status();
}

absl::Status CheckAblateJob(const v1::AblateSpec& spec, const ValidationContext& context) {
  if (spec.keep_scores()) return UnimplementedField("ablate.keep_scores");
  HC_ASSIGN_OR_RETURN(const ModelShape model,
                      CheckWorkload(spec.workload(), "ablate.workload", /*answers=*/true, context));
  return CheckRules(spec, model, context);
}

// Returns how many fractions are run: those above 0.
absl::StatusOr<int> CheckFractions(const v1::SweepSpec& spec) {
  constexpr int kDefaultFractions = 6;
  if (spec.fractions().empty()) return kDefaultFractions;
  if (spec.fractions_size() > kMaxFractions) {
    return InvalidField("sweep.fractions", std::to_string(spec.fractions_size()),
                        absl::StrCat("must be at most ", kMaxFractions));
  }
  int run = 0;
  for (int i = 0; i < spec.fractions_size(); ++i) {
    const std::string path = absl::StrCat("sweep.fractions[", i, "]");
    HC_RETURN_IF_ERROR(CheckShare(spec.fractions(i), path));
    if (i > 0 && spec.fractions(i) <= spec.fractions(i - 1)) {
      return InvalidField(path, absl::StrCat(spec.fractions(i)),
                          absl::StrCat("must be above the one before it, ", spec.fractions(i - 1)));
    }
    if (spec.fractions(i) > 0) ++run;
  }
  if (run == 0) {
    return InvalidField("sweep.fractions", "0", "must hold at least one fraction above 0");
  }
  return run;
}

absl::Status CheckSweepJob(const v1::SweepSpec& spec, const ValidationContext& context) {
  if (!spec.models().empty()) return UnimplementedField("sweep.models");
  if (!spec.tasks().empty()) return UnimplementedField("sweep.tasks");
  if (!spec.calibrate_on().empty()) return UnimplementedField("sweep.calibrate_on");
  if (spec.cross_fit() != 0) return UnimplementedField("sweep.cross_fit");
  HC_RETURN_IF_ERROR(CheckIntervention(spec.intervention(), "sweep.intervention"));
  if (!spec.intervention().mean().empty()) {
    return InvalidField("sweep.intervention.mean", spec.intervention().mean(),
                        "must be empty: a sweep takes the means of its own score stage");
  }
  HC_RETURN_IF_ERROR(CheckUnit(spec.unit(), "sweep.unit"));
  HC_RETURN_IF_ERROR(
      CheckGroupScore(spec.group_score(), spec.unit(), /*scored=*/true, "sweep.group_score"));
  HC_RETURN_IF_ERROR(CheckDecideOn(spec.decide_on(), "sweep.decide_on"));
  HC_RETURN_IF_ERROR(CheckTokens(spec.tokens(), "sweep.tokens"));

  if (spec.scores().empty()) {
    return InvalidField("sweep.scores", "", "must name at least one score");
  }
  HC_ASSIGN_OR_RETURN(const UserScores scores,
                      UserScores::Make(spec.user_scores(), "sweep.user_scores"));
  std::set<const catalog::Score*> seen;
  for (int i = 0; i < spec.scores_size(); ++i) {
    const std::string path = absl::StrCat("sweep.scores[", i, "]");
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, scores.Find(spec.scores(i), path));
    if (!seen.insert(score).second) {
      return InvalidField(path, spec.scores(i), "names a score that is in the list already");
    }
  }
  HC_ASSIGN_OR_RETURN(const int fractions, CheckFractions(spec));
  if (const int rules = fractions * spec.scores_size(); rules > context.limits.max_rules) {
    return InvalidField(
        "sweep.fractions", absl::StrCat(rules, " rules"),
        absl::StrCat("scores x fractions must be at most ", context.limits.max_rules, " rules"));
  }
  HC_ASSIGN_OR_RETURN(const ModelShape model,
                      CheckWorkload(spec.workload(), "sweep.workload", /*answers=*/true, context));
  return CheckLayers(spec.layers(), "sweep.layers", model);
}

}  // namespace

ValidationLimits LimitsOf(const Config& config) {
  return {.max_rules = config.max_rules, .max_inline_bytes = config.max_inline_bytes};
}

absl::Status ValidateJob(const v1::Job& job, const ValidationContext& context) {
  HC_RETURN_IF_ERROR(CheckLabels(job));
  if (job.priority() < -kMaxPriority || job.priority() > kMaxPriority) {
    return InvalidField("priority", std::to_string(job.priority()), "must be in [-100, 100]");
  }
  switch (job.spec_case()) {
    case v1::Job::kScore:
      return CheckScoreJob(job.score(), context);
    case v1::Job::kAblate:
      return CheckAblateJob(job.ablate(), context);
    case v1::Job::kSweep:
      return CheckSweepJob(job.sweep(), context);
    case v1::Job::kFrontier:
      return UnimplementedField("frontier");
    case v1::Job::kCompare:
      return UnimplementedField("compare");
    case v1::Job::kProbe:
      return UnimplementedField("probe");
    case v1::Job::kKnockout:
      return UnimplementedField("knockout");
    case v1::Job::SPEC_NOT_SET:
      break;
  }
  return InvalidField("spec", "", "one of score, ablate and sweep is required");
}

}  // namespace headcount::plan
