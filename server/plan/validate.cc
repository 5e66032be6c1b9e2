// See validate.h.

#include "server/plan/validate.h"

#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/planners.h"
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
  if (spec.related()) return UnimplementedField("score.related");
  return CheckWorkload(spec.workload(), "score.workload", /*answers=*/false, context).status();
}

absl::Status CheckAblateJob(const v1::AblateSpec& spec, const ValidationContext& context) {
  if (spec.keep_scores()) return UnimplementedField("ablate.keep_scores");
  HC_ASSIGN_OR_RETURN(const ModelShape model,
                      CheckWorkload(spec.workload(), "ablate.workload", /*answers=*/true, context));
  if (spec.rules().empty()) {
    return InvalidField("ablate.rules", "", "must hold at least one rule");
  }
  return CheckRules({spec.rules(), spec.user_scores(), "ablate"}, spec.workload().model(), model,
                    context);
}

absl::Status CheckProbeJob(const v1::ProbeSpec& spec, const ValidationContext& context) {
  constexpr int kMostRules = 15, kMostNextTokens = 100;
  HC_ASSIGN_OR_RETURN(const ModelShape model,
                      CheckWorkload(spec.workload(), "probe.workload", /*answers=*/false, context));
  if (const int prompts = spec.workload().requests().requests_size(); prompts > kMaxProbePrompts) {
    return InvalidField("probe.workload.requests", absl::StrCat(prompts, " requests"),
                        absl::StrCat("must be at most ", kMaxProbePrompts, " requests"));
  }
  if (model.generates) {
    return InvalidField("probe.workload.task", spec.workload().task().task(),
                        "must not generate: a probe reads its prompts once");
  }
  if (spec.rules_size() > kMostRules) {
    return InvalidField("probe.rules", absl::StrCat(spec.rules_size(), " rules"),
                        absl::StrCat("must be at most ", kMostRules, " rules"));
  }
  if (spec.next_tokens() < 0 || spec.next_tokens() > kMostNextTokens) {
    return InvalidField("probe.next_tokens", absl::StrCat(spec.next_tokens()),
                        absl::StrCat("must be in [0, ", kMostNextTokens, "]"));
  }
  return CheckRules({spec.rules(), spec.user_scores(), "probe"}, spec.workload().model(), model,
                    context);
}

absl::Status CheckFrontierJob(const v1::FrontierSpec& spec, const ValidationContext& context) {
  HC_RETURN_IF_ERROR(CheckScores(spec.scores(), "frontier.scores"));
  HC_ASSIGN_OR_RETURN(const int fractions, CheckFractions(spec.fractions(), "frontier.fractions"));
  if (!spec.fractions().empty() && spec.fractions(0) == 0) {
    return InvalidField("frontier.fractions[0]", "0",
                        "must be above 0: the baseline needs no certificate");
  }
  if (const int rules = fractions * spec.scores_size(); rules > context.limits.max_rules) {
    return InvalidField(
        "frontier.fractions", absl::StrCat(rules, " rules"),
        absl::StrCat("scores x fractions must be at most ", context.limits.max_rules, " rules"));
  }
  if (spec.margin() != 0 && !(spec.margin() > 0 && spec.margin() < 1)) {
    return InvalidField("frontier.margin", absl::StrCat(spec.margin()),
                        "must be above 0 and below 1, as a share of the documents");
  }
  if (spec.alpha() != 0 && !(spec.alpha() > 0 && spec.alpha() <= .5)) {
    return InvalidField("frontier.alpha", absl::StrCat(spec.alpha()),
                        "must be above 0 and at most .5");
  }
  if (!v1::FrontierSpec::Order_IsValid(spec.order())) {
    return InvalidField("frontier.order", absl::StrCat(static_cast<int>(spec.order())),
                        "must be ASCENDING or ANY");
  }
  if (!v1::FrontierSpec::Claim_IsValid(spec.claim())) {
    return InvalidField("frontier.claim", absl::StrCat(static_cast<int>(spec.claim())),
                        "must be DOCUMENTS or POPULATION");
  }
  HC_ASSIGN_OR_RETURN(const ModelShape model, CheckWorkload(spec.workload(), "frontier.workload",
                                                            /*answers=*/true, context));
  if (model.generates) return UnimplementedField("frontier.workload.task");
  if (model.reads_its_answer) return OnlineRule("frontier.workload.task");
  return CheckLayers(spec.layers(), "frontier.layers", model);
}

absl::Status CheckKnockoutJob(const v1::KnockoutSpec& spec, const ValidationContext& context) {
  HC_ASSIGN_OR_RETURN(const ModelShape model, CheckWorkload(spec.workload(), "knockout.workload",
                                                            /*answers=*/true, context));
  if (model.generates) {
    return InvalidField("knockout.workload.task", spec.workload().task().task(),
                        "must have choices: a knockout is told by the gold one's log-likelihood");
  }
  HC_RETURN_IF_ERROR(CheckLayers(spec.layers(), "knockout.layers", model));
  const v1::LayerSelection& layers = spec.layers();
  const int chosen =
      layers.include_size() > 0 ? layers.include_size() : model.layers - layers.exclude_size();
  if (const int rules = chosen * model.heads; rules > context.limits.max_rules) {
    return InvalidField("knockout.layers", absl::StrCat(rules, " heads"),
                        absl::StrCat("a job runs at most ", context.limits.max_rules,
                                     " rules: choose fewer layers"));
  }
  if (spec.score_job().empty()) return absl::OkStatus();
  return CheckNamedScoreJob(spec.score_job(), "knockout.score_job", spec.workload().model(),
                            context);
}

absl::Status CheckCompareJob(const v1::CompareSpec& spec, const ValidationContext& context) {
  constexpr int kMostSides = 16;
  const int sides = 1 + spec.models_size() + spec.tasks_size();
  if (sides < 2 || sides > kMostSides) {
    return InvalidField("compare.models", absl::StrCat(sides, " sides"),
                        absl::StrCat("with tasks it must make 2 to ", kMostSides,
                                     " sides, the workload counted as the first"));
  }
  HC_RETURN_IF_ERROR(CheckScores(spec.scores(), "compare.scores"));
  for (int i = 0; i < spec.scores_size(); ++i) {
    const std::string path = absl::StrCat("compare.scores[", i, "]");
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, UserScores().Find(spec.scores(i), path));
    if (score->is_random()) {
      return InvalidField(path, spec.scores(i), "is drawn, not measured: nothing to compare");
    }
  }
  if (spec.fraction() != 0 && !(spec.fraction() > 0 && spec.fraction() < 1)) {
    return InvalidField("compare.fraction", absl::StrCat(spec.fraction()),
                        "must be above 0 and below 1");
  }
  HC_RETURN_IF_ERROR(
      CheckWorkload(spec.workload(), "compare.workload", /*answers=*/false, context).status());
  for (int i = 0; i < spec.models_size(); ++i) {
    v1::Workload side = spec.workload();
    side.set_model(spec.models(i));
    const absl::Status status =
        CheckWorkload(side, "compare.workload", /*answers=*/false, context).status();
    if (!status.ok()) {
      const std::string path = absl::StrCat("compare.models[", i, "]");
      return WithField(Annotate(status, path), path);
    }
  }
  for (int i = 0; i < spec.tasks_size(); ++i) {
    v1::Workload side = spec.workload();
    *side.mutable_task() = spec.tasks(i);
    const absl::Status status =
        CheckWorkload(side, "compare.workload", /*answers=*/false, context).status();
    if (!status.ok()) {
      const std::string path = absl::StrCat("compare.tasks[", i, "]");
      return WithField(Annotate(status, path), path);
    }
  }
  return absl::OkStatus();
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
      return CheckFrontierJob(job.frontier(), context);
    case v1::Job::kCompare:
      return CheckCompareJob(job.compare(), context);
    case v1::Job::kProbe:
      return CheckProbeJob(job.probe(), context);
    case v1::Job::kKnockout:
      return CheckKnockoutJob(job.knockout(), context);
    case v1::Job::SPEC_NOT_SET:
      break;
  }
  return InvalidField(
      "spec", "", "one of score, ablate, sweep, frontier, compare, knockout and probe is required");
}

}  // namespace headcount::plan
