// See rule_list.h.

#include "server/plan/rule_list.h"

#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/controls.h"
#include "server/plan/rule_expression.h"
#include "server/plan/rules.h"

namespace headcount::plan {
namespace {

constexpr double kNoFraction = std::numeric_limits<double>::quiet_NaN();

// One pass over stored scores answers for all scores and fractions that share these.
struct Pool {
  std::string score_job;
  results::ScorePool scores;
  auto operator<=>(const Pool&) const = default;
};

Pool PoolOfRule(const v1::Rule& rule, const catalog::ModelConfig& model) {
  return {rule.threshold().score_job(),
          PoolOf(rule.layers(), rule.unit(), rule.group_score(), model)};
}

struct Asked {
  std::set<const catalog::Score*> scores;
  std::set<double> fractions;
};

using Key = std::tuple<Pool, const catalog::Score*, double>;

absl::StatusOr<std::map<Key, double>> Thresholds(const RuleList& list, const UserScores& known,
                                                 const PlanInput& input) {
  std::map<Pool, Asked> asked;
  for (const v1::Rule& rule : list.rules) {
    if (rule.threshold().by_case() != v1::Threshold::kFraction) continue;
    if (rule.threshold().fraction() == 0) continue;
    HC_ASSIGN_OR_RETURN(
        const catalog::Score* score,
        known.Find(rule.threshold().score(), list.field + ".rules.threshold.score"));
    Asked& pool = asked[PoolOfRule(rule, input.model)];
    pool.scores.insert(score);
    pool.fractions.insert(rule.threshold().fraction());
  }
  std::map<Key, double> thresholds;
  for (const auto& [pool, wanted] : asked) {
    const std::vector<const catalog::Score*> scores(wanted.scores.begin(), wanted.scores.end());
    const std::vector<double> fractions(wanted.fractions.begin(), wanted.fractions.end());
    const auto found = input.results.thresholds(pool.score_job, scores, fractions, pool.scores);
    if (!found.ok()) return Annotate(found.status(), "thresholds from " + pool.score_job);
    for (size_t s = 0; s < scores.size(); ++s) {
      for (size_t f = 0; f < fractions.size(); ++f) {
        thresholds[{pool, scores[s], fractions[f]}] = (*found)[s][f];
      }
    }
  }
  return thresholds;
}

absl::StatusOr<v1::ResolvedRule> ResolveThreshold(const v1::Rule& rule, const Pool& pool,
                                                  const UserScores& known,
                                                  const std::map<Key, double>& thresholds) {
  const std::vector<uint8_t>& layers = pool.scores.layers;
  const v1::Threshold& threshold = rule.threshold();
  HC_ASSIGN_OR_RETURN(const catalog::Score* score,
                      known.Find(threshold.score(), "rules.threshold.score"));
  if (threshold.by_case() == v1::Threshold::kFraction) {
    v1::ResolvedRule resolved = NewRule(score->id, threshold.fraction(), layers);
    const auto found = thresholds.find({pool, score, threshold.fraction()});
    SelectFraction(known, *score, threshold.fraction(),
                   found == thresholds.end() ? kNoFraction : found->second, &resolved);
    return resolved;
  }
  v1::ResolvedRule resolved = NewRule(score->id, kNoFraction, layers);
  if (threshold.by_case() == v1::Threshold::kTopK) {
    known.Set(*score, resolved.mutable_top_k());
    resolved.mutable_top_k()->set_k(threshold.top_k());
  } else {
    v1::ResolvedThreshold* by = resolved.mutable_threshold();
    known.Set(*score, by);
    by->set_value(static_cast<float>(threshold.value()));
    for (double value : threshold.layer_values().values()) {
      by->add_layer_values(static_cast<float>(value));
    }
  }
  return resolved;
}

// Query heads, where the spec names KV heads.
v1::FixedHeads QueryHeads(const v1::FixedHeads& heads, v1::Unit unit,
                          const catalog::ModelConfig& model) {
  if (unit != v1::UNIT_KV_GROUP) return heads;
  v1::FixedHeads out;
  for (const v1::Head& kv : heads.heads()) {
    for (int i = 0; i < model.group_size(); ++i) {
      v1::Head* head = out.add_heads();
      head->set_layer(kv.layer());
      head->set_head(kv.head() * model.group_size() + i);
    }
  }
  return out;
}

// All but what names other rules, which is left unselected.
absl::StatusOr<v1::ResolvedRule> Resolve(const v1::Rule& rule, const catalog::ModelConfig& model,
                                         const UserScores& known,
                                         const std::map<Key, double>& thresholds) {
  const Pool pool = PoolOfRule(rule, model);
  const std::vector<uint8_t>& layers = pool.scores.layers;
  if (rule.has_threshold()) {
    HC_ASSIGN_OR_RETURN(v1::ResolvedRule resolved, ResolveThreshold(rule, pool, known, thresholds));
    SetUnit(rule.unit(), rule.group_score(), &resolved);
    return resolved;
  }
  if (rule.select_case() == v1::Rule::kExpression) {
    return NewRule(rule.expression(), kNoFraction, layers);
  }
  if (rule.has_shuffled()) return NewRule("shuffled", kNoFraction, {});
  if (rule.has_static_heads()) return NewRule("static_heads", kNoFraction, {});
  if (rule.has_random_in_layer()) {
    return NewRule(absl::StrCat("random_in_layer(", rule.random_in_layer().rule(), ")"),
                   kNoFraction, layers);
  }
  if (rule.has_random()) {
    v1::ResolvedRule resolved = NewRule("random", rule.random().p(), layers);
    *resolved.mutable_random() = rule.random();
    SetUnit(rule.unit(), v1::GROUP_SCORE_UNSPECIFIED, &resolved);
    return resolved;
  }
  v1::ResolvedRule resolved = NewRule("fixed", kNoFraction, layers);
  *resolved.mutable_fixed_heads() = QueryHeads(rule.fixed_heads(), rule.unit(), model);
  return resolved;
}

// Fills in the rules that take the masks of another job. Their label names that job's rule, so that
// several of one score make a curve.
absl::Status AddControls(const RuleList& list, const PlanInput& input,
                         std::vector<v1::ResolvedRule>* rules) {
  int64_t bytes = 0;
  for (int i = 0; i < list.rules.size(); ++i) {
    const v1::Rule& rule = list.rules.Get(i);
    if (!rule.has_shuffled() && !rule.has_static_heads()) continue;
    v1::ResolvedRule& resolved = (*rules)[static_cast<size_t>(i)];
    const bool shuffled = rule.has_shuffled();
    const std::string& job = shuffled ? rule.shuffled().job() : rule.static_heads().job();
    const auto masks =
        input.results.masks(job, shuffled ? rule.shuffled().rule() : rule.static_heads().rule());
    if (!masks.ok()) return Annotate(masks.status(), absl::StrCat(list.field, ".rules[", i, "]"));
    if (rule.name().empty()) {
      resolved.set_label(absl::StrCat(resolved.label(), "(", masks->label, ")"));
    }
    resolved.set_nominal_fraction(masks->nominal_fraction);
    if (!shuffled) {
      HC_RETURN_IF_ERROR(SelectStaticHeads(*masks, input.model, &resolved));
      continue;
    }
    HC_ASSIGN_OR_RETURN(*resolved.mutable_sample_masks(),
                        ShuffledMasksOf(*masks, rule.shuffled().seed(), input.manifest,
                                        input.manifest_digest, input.model));
    bytes += static_cast<int64_t>(resolved.sample_masks().masks().size());
    if (bytes > kMaxMaskBytes) {
      return WithReason(absl::FailedPreconditionError(
                            absl::StrCat(list.field, ".rules[", i,
                                         "]: the masks of this and the shuffled rules before "
                                         "it have ",
                                         bytes, " bytes, at most ", kMaxMaskBytes,
                                         " are planned; "
                                         "ask for fewer rules in a job")),
                        "MASKS_TOO_LARGE");
    }
  }
  return absl::OkStatus();
}

// The means that interventions name, each job's once; `rules` (with the baseline in front) get
// their places.
absl::StatusOr<std::vector<v1::HeadMeans>> AddMeans(const RuleList& list, const PlanInput& input,
                                                    std::vector<v1::ResolvedRule>* rules) {
  std::vector<v1::HeadMeans> means;
  std::map<std::string, int> places;
  size_t bytes = 0;
  for (int i = 0; i < list.rules.size(); ++i) {
    if (!list.rules.Get(i).intervention().has_mean()) continue;
    const std::string& job = list.rules.Get(i).intervention().mean();
    const auto [place, is_new] = places.emplace(job, static_cast<int>(means.size()));
    if (is_new) {
      HC_ASSIGN_OR_RETURN(v1::HeadMeans found, MeansFor(job, input));
      bytes += found.ByteSizeLong();
      means.push_back(std::move(found));
    }
    if (bytes > kMaxMeanBytes) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              list.field, ".rules[", i, "].intervention.mean: the means of ", means.size(),
              " jobs have ", bytes, " bytes, at most ", kMaxMeanBytes, " go with a task")),
          "MEANS_TOO_LARGE");
    }
    (*rules)[static_cast<size_t>(i) + 1].set_means(place->second);
  }
  return means;
}

}  // namespace

absl::StatusOr<ResolvedList> ResolveRules(const RuleList& list, const PlanInput& input) {
  HC_ASSIGN_OR_RETURN(const UserScores known,
                      UserScores::Make(list.user_scores, list.field + ".user_scores"));
  HC_ASSIGN_OR_RETURN(const auto thresholds, Thresholds(list, known, input));
  std::vector<v1::ResolvedRule> rules;
  rules.reserve(static_cast<size_t>(list.rules.size()) + 1);
  for (const v1::Rule& rule : list.rules) {
    HC_ASSIGN_OR_RETURN(v1::ResolvedRule resolved, Resolve(rule, input.model, known, thresholds));
    if (!rule.name().empty()) resolved.set_label(rule.name());
    if (input.manifest.has_generation()) resolved.set_mask_update(rule.mask_update());
    rules.push_back(std::move(resolved));
  }
  HC_RETURN_IF_ERROR(AddControls(list, input, &rules));
  for (int i = 0; i < list.rules.size(); ++i) {
    SetIntervention(list.rules.Get(i).intervention(), &rules[static_cast<size_t>(i)]);
  }
  ResolveReferences(list.rules, &rules);
  rules.insert(rules.begin(), BaselineRule());
  HC_ASSIGN_OR_RETURN(std::vector<v1::HeadMeans> means, AddMeans(list, input, &rules));
  return ResolvedList{std::move(rules), std::move(means)};
}

}  // namespace headcount::plan
