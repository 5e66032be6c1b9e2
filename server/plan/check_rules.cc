// Rules: what selects heads, where, and what takes their place. See spec_checks.h.

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "server/plan/rule_expression.h"
#include "server/plan/rules.h"
#include "server/plan/spec_checks.h"
#include "server/plan/user_scores.h"
#include "server/results/sweep_children.h"

namespace headcount::plan {
namespace {

absl::Status OutOfRange(const std::string& path, int64_t value, int64_t count,
                        std::string_view what) {
  return WithField(
      WithReason(absl::OutOfRangeError(absl::StrCat(
                     path, ": must be in [0, ", count - 1, "], the model has ", count, " ",
                     absl::string_view(what.data(), what.size()), " (got ", value, ")")),
                 "OUT_OF_RANGE"),
      path);
}

absl::Status CheckLayerList(const google::protobuf::RepeatedField<int32_t>& list,
                            const std::string& path, int layers) {
  std::set<int> seen;
  for (int i = 0; i < list.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    if (list[i] < 0 || list[i] >= layers) return OutOfRange(at, list[i], layers, "layers");
    if (!seen.insert(list[i]).second) {
      return InvalidField(at, std::to_string(list[i]), "names a layer that is in the list already");
    }
  }
  return absl::OkStatus();
}

// Looks each job that rules name up once: a job may have thousands of rules.
class NamedJobs {
 public:
  NamedJobs(const ValidationContext& context, std::string model)
      : context_(context), model_(std::move(model)) {}

  // It has stored scores.
  absl::Status CheckScores(const std::string& name, const std::string& path) {
    return Check(name, path, /*scores=*/true);
  }
  // It has stored masks of rule `rule`.
  absl::Status CheckMasks(const std::string& name, int rule, const std::string& path) {
    HC_RETURN_IF_ERROR(Check(name, path + ".job", /*scores=*/false));
    const v1::Job& job = checked_.at({name, false});
    // A sweep's rules are counted where it is planned; the job's own tells more.
    const int64_t rules = job.has_ablate() ? job.ablate().rules_size() : context_.limits.max_rules;
    if (rule >= 0 && rule < rules) return absl::OkStatus();
    return WithField(WithReason(absl::OutOfRangeError(
                                    absl::StrCat(path, ".rule: must be in [0, ", rules - 1, "], ",
                                                 name, " has ", rules, " rules (got ", rule, ")")),
                                "OUT_OF_RANGE"),
                     path + ".rule");
  }

 private:
  absl::Status Check(const std::string& name, const std::string& path, bool scores) {
    if (checked_.contains({name, scores})) return absl::OkStatus();
    return CheckNew(name, path, scores);
  }

  absl::Status CheckNew(const std::string& name, const std::string& path, bool scores) {
    HC_RETURN_IF_ERROR(CheckJobName(name, path));
    const absl::StatusOr<v1::Job> job = context_.jobs.GetJob(name);
    if (!job.ok()) return WithField(Annotate(job.status(), path), path);
    if (scores && !job->has_score() && !job->has_sweep()) {
      return InvalidField(path, name, "must be a score or sweep job: others keep no scores");
    }
    if (results::HasChildren(job->sweep())) {
      return InvalidField(path, name, "must not be made of other jobs: name one of those");
    }
    if (!scores && !job->has_ablate() && !job->has_sweep()) {
      return InvalidField(path, name, "must be an ablate or sweep job: others have no masks");
    }
    if (const std::string& model = format::WorkloadOf(*job).model(); model != model_) {
      return InvalidField(path, name,
                          absl::StrCat("must be a job of model ", model_, ", it is of ", model));
    }
    if (job->state() != v1::Job::SUCCEEDED) {
      return WithField(WithReason(absl::FailedPreconditionError(
                                      absl::StrCat(path, ": ", name, " must have succeeded, it is ",
                                                   v1::Job::State_Name(job->state()))),
                                  "SCORE_JOB_NOT_SUCCEEDED"),
                       path);
    }
    checked_[{name, scores}] = *job;
    return absl::OkStatus();
  }

  static absl::Status CheckJobName(const std::string& name, const std::string& path) {
    constexpr size_t kLongest = 300;
    if (name.size() <= kLongest) {
      const std::vector<std::string> parts = absl::StrSplit(name, '/');
      if (parts.size() == 4 && parts[0] == "projects" && parts[2] == "jobs" &&
          CheckResourceId(path, parts[1]).ok() && CheckResourceId(path, parts[3]).ok()) {
        return absl::OkStatus();
      }
    }
    return InvalidField(path, name, "must be \"projects/{project}/jobs/{job}\"");
  }

  const ValidationContext& context_;
  const std::string model_;
  std::map<std::pair<std::string, bool>, v1::Job> checked_;  // by name, and whether for scores
};

absl::Status CheckValue(double value, const std::string& path) {
  // Scores are float32: a threshold beyond them would select all heads or none in silence.
  if (std::isfinite(value) && std::abs(value) <= std::numeric_limits<float>::max()) {
    return absl::OkStatus();
  }
  return InvalidField(path, absl::StrCat(value), "must be finite and at most 3.4e38");
}

absl::Status CheckLayerValues(const v1::LayerValues& layers, const std::string& path,
                              const ModelShape& model) {
  if (layers.values_size() != model.layers) {
    return InvalidField(path + ".values", absl::StrCat(layers.values_size(), " values"),
                        absl::StrCat("must be one a layer, the model has ", model.layers));
  }
  for (int i = 0; i < layers.values_size(); ++i) {
    HC_RETURN_IF_ERROR(CheckValue(layers.values(i), absl::StrCat(path, ".values[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status CheckThreshold(const v1::Threshold& threshold, v1::Unit unit, const std::string& path,
                            const ModelShape& model, const UserScores& scores, NamedJobs& jobs) {
  HC_ASSIGN_OR_RETURN(const catalog::Score* score, scores.Find(threshold.score(), path + ".score"));
  if (score->is_random()) {
    return InvalidField(path + ".score", threshold.score(),
                        "has no threshold: use the rule's `random`");
  }
  if (threshold.by_case() != v1::Threshold::kFraction && !threshold.score_job().empty()) {
    return InvalidField(path + ".score_job", threshold.score_job(),
                        "must be empty unless `fraction` is set");
  }
  switch (threshold.by_case()) {
    case v1::Threshold::kValue:
      return CheckValue(threshold.value(), path + ".value");
    case v1::Threshold::kFraction:
      HC_RETURN_IF_ERROR(CheckShare(threshold.fraction(), path + ".fraction"));
      if (threshold.score_job().empty()) {
        return InvalidField(path + ".score_job", "", "is required with `fraction`");
      }
      return jobs.CheckScores(threshold.score_job(), path + ".score_job");
    case v1::Threshold::kTopK:
      if (threshold.top_k() < 0) {
        return InvalidField(path + ".top_k", std::to_string(threshold.top_k()),
                            "must be 0 or more");
      }
      if (const int most = model.units(unit); threshold.top_k() > most) {
        return OutOfRange(path + ".top_k", threshold.top_k(), most + 1, "counts of heads");
      }
      return absl::OkStatus();
    case v1::Threshold::kLayerValues:
      return CheckLayerValues(threshold.layer_values(), path + ".layer_values", model);
    case v1::Threshold::BY_NOT_SET:
      break;
  }
  return InvalidField(path + ".by", "",
                      "one of value, fraction, top_k and layer_values is required");
}

absl::Status CheckFixedHeads(const v1::FixedHeads& fixed, v1::Unit unit,
                             const v1::LayerSelection& layers, const std::string& path,
                             const ModelShape& model) {
  if (fixed.heads().empty()) {
    return InvalidField(path + ".heads", "", "must name at least one head");
  }
  const std::vector<uint8_t> active = LayerFlags(layers, model.layers);
  std::set<std::pair<int, int>> seen;
  for (int i = 0; i < fixed.heads_size(); ++i) {
    const v1::Head& head = fixed.heads(i);
    const std::string at = absl::StrCat(path, ".heads[", i, "]");
    if (head.layer() < 0 || head.layer() >= model.layers) {
      return OutOfRange(at + ".layer", head.layer(), model.layers, "layers");
    }
    if (head.head() < 0 || head.head() >= model.units(unit)) {
      return OutOfRange(at + ".head", head.head(), model.units(unit),
                        unit == v1::UNIT_KV_GROUP ? "KV heads" : "query heads");
    }
    const std::string value = absl::StrCat(head.layer(), ".", head.head());
    if (!seen.emplace(head.layer(), head.head()).second) {
      return InvalidField(at, value, "names a head that is in the list already");
    }
    if (!active.empty() && !active[head.layer()]) {
      return InvalidField(at, value, "is in a layer that the rule's `layers` leave out");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckExpression(const v1::Rule& rule, const std::string& path) {
  const absl::Status parsed = ParseRuleExpression(rule.expression()).status();
  if (!parsed.ok()) {
    return InvalidField(path + ".expression", rule.expression().substr(0, 200),
                        std::string(parsed.message()));
  }
  if (rule.unit() == v1::UNIT_KV_GROUP) {
    return InvalidField(
        path + ".unit", "UNIT_KV_GROUP",
        "must be left to the rules of the expression: they have units of their own");
  }
  return absl::OkStatus();
}

// Masks of another job are taken as they were.
absl::Status CheckTakenMasks(const v1::Rule& rule, const std::string& path) {
  if (!rule.layers().include().empty() || !rule.layers().exclude().empty()) {
    return InvalidField(path + ".layers", "", "must be empty: the masks are taken as they were");
  }
  if (rule.unit() == v1::UNIT_KV_GROUP) {
    return InvalidField(path + ".unit", "UNIT_KV_GROUP",
                        "must be unset: the masks are taken as they were");
  }
  return absl::OkStatus();
}

absl::Status CheckName(const std::string& name, const std::string& path) {
  if (name.empty() || IsRuleName(name)) return absl::OkStatus();
  return InvalidField(path, name.substr(0, 100),
                      "must be 1 to 40 of [a-z0-9_], begin with a letter, and not be and, or, not");
}

// Which part of a rule looks at the input, or at one that its masks were made for; empty: none.
std::string OnlinePart(const v1::Rule& rule) {
  switch (rule.select_case()) {
    case v1::Rule::kThreshold:
      return ".threshold";
    case v1::Rule::kRandom:
      return ".random";
    case v1::Rule::kRandomInLayer:
      return ".random_in_layer";
    case v1::Rule::kShuffled:
      return ".shuffled";
    default:
      return "";
  }
}

absl::Status CheckRule(const v1::Rule& rule, const std::string& path, const ModelShape& model,
                       const UserScores& scores, NamedJobs& jobs) {
  HC_RETURN_IF_ERROR(CheckName(rule.name(), path + ".name"));
  HC_RETURN_IF_ERROR(CheckIntervention(rule.intervention(), path + ".intervention"));
  if (rule.intervention().has_mean()) {
    HC_RETURN_IF_ERROR(jobs.CheckScores(rule.intervention().mean(), path + ".intervention.mean"));
  }
  HC_RETURN_IF_ERROR(CheckUnit(rule.unit(), path + ".unit"));
  HC_RETURN_IF_ERROR(CheckGroupScore(rule.group_score(), rule.unit(), rule.has_threshold(),
                                     path + ".group_score"));
  HC_RETURN_IF_ERROR(CheckDecideOn(rule.decide_on(), path + ".decide_on"));
  HC_RETURN_IF_ERROR(CheckTokens(rule.tokens(), path + ".tokens"));
  HC_RETURN_IF_ERROR(CheckMaskUpdate(rule.mask_update(), path + ".mask_update", model));
  if (rule.apply() != v1::APPLY_UNSPECIFIED && rule.apply() != v1::APPLY_BOTH) {
    return UnimplementedField(path + ".apply");
  }
  HC_RETURN_IF_ERROR(CheckLayers(rule.layers(), path + ".layers", model));
  if (const std::string part = OnlinePart(rule); model.reads_its_answer && !part.empty()) {
    return OnlineRule(path + part);
  }
  switch (rule.select_case()) {
    case v1::Rule::kThreshold:
      return CheckThreshold(rule.threshold(), rule.unit(), path + ".threshold", model, scores,
                            jobs);
    case v1::Rule::kFixedHeads:
      return CheckFixedHeads(rule.fixed_heads(), rule.unit(), rule.layers(), path + ".fixed_heads",
                             model);
    case v1::Rule::kRandom:
      return CheckShare(rule.random().p(), path + ".random.p");
    case v1::Rule::kExpression:
      return CheckExpression(rule, path);
    case v1::Rule::kRandomInLayer:
      if (!rule.random_in_layer().rule().empty()) return absl::OkStatus();
      return InvalidField(path + ".random_in_layer.rule", "", "is required: the name of a rule");
    case v1::Rule::kShuffled:
      if (model.generates) return UnimplementedField(path + ".shuffled");
      HC_RETURN_IF_ERROR(CheckTakenMasks(rule, path));
      return jobs.CheckMasks(rule.shuffled().job(), rule.shuffled().rule(), path + ".shuffled");
    case v1::Rule::kStaticHeads:
      HC_RETURN_IF_ERROR(CheckTakenMasks(rule, path));
      return jobs.CheckMasks(rule.static_heads().job(), rule.static_heads().rule(),
                             path + ".static_heads");
    case v1::Rule::SELECT_NOT_SET:
      break;
  }
  return InvalidField(
      path + ".select", "",
      "one of threshold, fixed_heads, random, expression, random_in_layer, shuffled "
      "and static_heads is required; the baseline is run without being asked for");
}

}  // namespace

absl::Status OnlineRule(const std::string& path) {
  return WithField(
      WithReason(absl::InvalidArgumentError(absl::StrCat(
                     path,
                     ": a mask that is decided for each input would know the tokens that this task "
                     "is to predict; it takes the same heads for every text: fixed_heads, "
                     "static_heads, and expressions of these")),
                 "ONLINE_RULE"),
      path);
}

absl::Status CheckShare(double share, const std::string& path) {
  if (share >= 0 && share <= 1) return absl::OkStatus();  // false for NaN
  return InvalidField(path, absl::StrCat(share), "must be in [0, 1]");
}

absl::Status CheckLayers(const v1::LayerSelection& layers, const std::string& path,
                         const ModelShape& model) {
  if (!layers.include().empty() && !layers.exclude().empty()) {
    return InvalidField(path, "include and exclude", "must have one of include and exclude");
  }
  HC_RETURN_IF_ERROR(CheckLayerList(layers.include(), path + ".include", model.layers));
  HC_RETURN_IF_ERROR(CheckLayerList(layers.exclude(), path + ".exclude", model.layers));
  if (layers.exclude_size() == model.layers && model.layers > 0) {
    return InvalidField(path + ".exclude", absl::StrCat("all ", model.layers, " layers"),
                        "must leave at least one layer");
  }
  return absl::OkStatus();
}

absl::Status CheckIntervention(const v1::Intervention& intervention, const std::string& path) {
  switch (intervention.kind_case()) {
    case v1::Intervention::KIND_NOT_SET:
      return absl::OkStatus();
    case v1::Intervention::kZero:
      if (intervention.zero()) return absl::OkStatus();
      return InvalidField(path + ".zero", "false", "must be true when it is set");
    case v1::Intervention::kMean:
      return absl::OkStatus();  // the job is looked up where there is one to look in
    case v1::Intervention::kFirstValue:
      if (intervention.first_value()) return absl::OkStatus();
      return InvalidField(path + ".first_value", "false", "must be true when it is set");
    case v1::Intervention::kScale:
      // Outputs are at most float32: a factor beyond it would make all of them infinite.
      if (std::isfinite(intervention.scale()) &&
          std::abs(intervention.scale()) <= std::numeric_limits<float>::max()) {
        return absl::OkStatus();
      }
      return InvalidField(path + ".scale", absl::StrCat(intervention.scale()),
                          "must be finite and at most 3.4e38");
    case v1::Intervention::kResample:
      return UnimplementedField(path + ".resample");
  }
  return InvalidField(path, "", "is not an intervention");
}

absl::Status CheckUnit(v1::Unit unit, const std::string& path) {
  if (v1::Unit_IsValid(unit)) return absl::OkStatus();
  return InvalidField(path, std::to_string(unit), "is not a unit");
}

absl::Status CheckGroupScore(v1::GroupScore group_score, v1::Unit unit, bool scored,
                             const std::string& path) {
  if (group_score == v1::GROUP_SCORE_UNSPECIFIED) return absl::OkStatus();
  if (!v1::GroupScore_IsValid(group_score)) {
    return InvalidField(path, std::to_string(group_score), "is not a way to score a group");
  }
  if (unit == v1::UNIT_KV_GROUP && scored) return absl::OkStatus();
  return InvalidField(path, v1::GroupScore_Name(group_score),
                      "needs unit UNIT_KV_GROUP and a score that decides");
}

absl::Status CheckDecideOn(v1::DecideOn decide_on, const std::string& path) {
  if (decide_on == v1::DECIDE_ON_UNSPECIFIED || decide_on == v1::DECIDE_ON_INPUT) {
    return absl::OkStatus();
  }
  if (decide_on == v1::DECIDE_ON_CONTEXT) return UnimplementedField(path);
  return InvalidField(path, std::to_string(decide_on), "is not a value of decide_on");
}

absl::Status CheckMaskUpdate(v1::MaskUpdate update, const std::string& path,
                             const ModelShape& model) {
  if (!v1::MaskUpdate_IsValid(update)) {
    return InvalidField(path, std::to_string(update), "is not a value of mask_update");
  }
  if (update == v1::MASK_UPDATE_UNSPECIFIED || model.generates) return absl::OkStatus();
  return InvalidField(path, v1::MaskUpdate_Name(update),
                      "must be unset: the task generates nothing");
}

absl::Status CheckTokens(const v1::Tokens& tokens, const std::string& path) {
  switch (tokens.over_case()) {
    case v1::Tokens::OVER_NOT_SET:
      return absl::OkStatus();
    case v1::Tokens::kAll:
      if (tokens.all()) return absl::OkStatus();
      return InvalidField(path + ".all", "false", "must be true when it is set");
    case v1::Tokens::kAfterPrefix:
      return UnimplementedField(path + ".after_prefix");
    case v1::Tokens::kLast:
      return UnimplementedField(path + ".last");
    case v1::Tokens::kGenerated:
      return UnimplementedField(path + ".generated");
  }
  return InvalidField(path, "", "is not a choice of tokens");
}

absl::Status CheckNamedScoreJob(const std::string& name, const std::string& path,
                                const std::string& model, const ValidationContext& context) {
  return NamedJobs(context, model).CheckScores(name, path);
}

absl::Status CheckRules(const RuleList& list, const std::string& model, const ModelShape& shape,
                        const ValidationContext& context) {
  const std::string path = list.field + ".rules";
  if (list.rules.size() > context.limits.max_rules) {
    return InvalidField(path, absl::StrCat(list.rules.size(), " rules"),
                        absl::StrCat("must be at most ", context.limits.max_rules, " rules"));
  }
  HC_ASSIGN_OR_RETURN(const UserScores scores,
                      UserScores::Make(list.user_scores, list.field + ".user_scores"));
  NamedJobs jobs(context, model);
  for (int i = 0; i < list.rules.size(); ++i) {
    HC_RETURN_IF_ERROR(
        CheckRule(list.rules.Get(i), absl::StrCat(path, "[", i, "]"), shape, scores, jobs));
  }
  return CheckReferences(list.rules, path);
}

}  // namespace headcount::plan
