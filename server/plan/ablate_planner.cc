// Kind `ablate`: every sample under every rule of a list. See planners.h. Fractions become
// thresholds here, from the score jobs that the rules name; a rule `none` is put in front as the
// job's own baseline (server/results/rule_index.h says how indices are shown).

#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/cutter.h"
#include "server/plan/planners.h"
#include "server/plan/rules.h"

namespace headcount::plan {
namespace {

constexpr double kNoFraction = std::numeric_limits<double>::quiet_NaN();

// One pass over stored scores answers for all scores and fractions that share these.
struct Pool {
  std::string score_job;
  std::vector<uint8_t> layers;
  auto operator<=>(const Pool&) const = default;
};

struct Asked {
  std::set<const catalog::Score*> scores;
  std::set<double> fractions;
};

using Key = std::tuple<Pool, const catalog::Score*, double>;

absl::StatusOr<std::map<Key, double>> Thresholds(const v1::AblateSpec& spec,
                                                 const PlanInput& input) {
  std::map<Pool, Asked> asked;
  for (const v1::Rule& rule : spec.rules()) {
    if (rule.threshold().by_case() != v1::Threshold::kFraction) continue;
    if (rule.threshold().fraction() == 0) continue;
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(rule.threshold().score()));
    Asked& pool =
        asked[{rule.threshold().score_job(), LayerFlags(rule.layers(), input.model.layers)}];
    pool.scores.insert(score);
    pool.fractions.insert(rule.threshold().fraction());
  }
  std::map<Key, double> thresholds;
  for (const auto& [pool, wanted] : asked) {
    const std::vector<const catalog::Score*> scores(wanted.scores.begin(), wanted.scores.end());
    const std::vector<double> fractions(wanted.fractions.begin(), wanted.fractions.end());
    const auto found = input.thresholds(pool.score_job, scores, fractions, pool.layers);
    if (!found.ok()) return Annotate(found.status(), "thresholds from " + pool.score_job);
    for (size_t s = 0; s < scores.size(); ++s) {
      for (size_t f = 0; f < fractions.size(); ++f) {
        thresholds[{pool, scores[s], fractions[f]}] = (*found)[s][f];
      }
    }
  }
  return thresholds;
}

absl::StatusOr<v1::ResolvedRule> ResolveThreshold(const v1::Rule& rule,
                                                  const std::vector<uint8_t>& layers,
                                                  const std::map<Key, double>& thresholds) {
  const v1::Threshold& threshold = rule.threshold();
  HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(threshold.score()));
  if (threshold.by_case() == v1::Threshold::kFraction) {
    v1::ResolvedRule resolved = NewRule(score->id, threshold.fraction(), layers);
    const auto found =
        thresholds.find({Pool{threshold.score_job(), layers}, score, threshold.fraction()});
    SelectFraction(score->id, threshold.fraction(),
                   found == thresholds.end() ? kNoFraction : found->second, &resolved);
    return resolved;
  }
  v1::ResolvedRule resolved = NewRule(score->id, kNoFraction, layers);
  if (threshold.by_case() == v1::Threshold::kTopK) {
    resolved.mutable_top_k()->set_score(score->id);
    resolved.mutable_top_k()->set_k(threshold.top_k());
  } else {
    resolved.mutable_threshold()->set_score(score->id);
    resolved.mutable_threshold()->set_value(static_cast<float>(threshold.value()));
  }
  return resolved;
}

absl::StatusOr<v1::ResolvedRule> Resolve(const v1::Rule& rule, int model_layers,
                                         const std::map<Key, double>& thresholds) {
  const std::vector<uint8_t> layers = LayerFlags(rule.layers(), model_layers);
  if (rule.has_threshold()) return ResolveThreshold(rule, layers, thresholds);
  if (rule.has_random()) {
    v1::ResolvedRule resolved = NewRule("random", rule.random().p(), layers);
    *resolved.mutable_random() = rule.random();
    return resolved;
  }
  v1::ResolvedRule resolved = NewRule("fixed", kNoFraction, layers);
  *resolved.mutable_fixed_heads() = rule.fixed_heads();
  return resolved;
}

class Ablate final : public Planner {
 public:
  v1::Job::SpecCase kind() const override { return v1::Job::kAblate; }

  std::span<const store::Stage> stages() const override {
    static constexpr std::array kStages = {store::Stage::kAblate};
    return kStages;
  }

  absl::StatusOr<v1::StagePlan> Plan(store::Stage stage, const PlanInput& input) const override {
    const v1::AblateSpec& spec = input.job.ablate();
    HC_ASSIGN_OR_RETURN(const auto thresholds, Thresholds(spec, input));
    std::vector<v1::ResolvedRule> rules;
    rules.reserve(spec.rules_size() + 1);
    rules.push_back(NewRule("baseline", 0, {}));
    rules.back().set_none(true);
    for (const v1::Rule& rule : spec.rules()) {
      HC_ASSIGN_OR_RETURN(v1::ResolvedRule resolved, Resolve(rule, input.model.layers, thresholds));
      rules.push_back(std::move(resolved));
    }
    return CutStage(input.manifest, input.samples_per_unit, std::move(rules), input.rules_per_unit);
  }
};

}  // namespace

const Planner& AblatePlanner() {
  static const Ablate planner;
  return planner;
}

}  // namespace headcount::plan
