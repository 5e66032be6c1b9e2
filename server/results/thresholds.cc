// See thresholds.h.

#include "server/results/thresholds.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/kv_groups.h"
#include "server/results/quantiles.h"
#include "server/results/score_reader.h"
#include "server/results/user_scores.h"

namespace headcount::results {
namespace {

using catalog::Inactive;
using catalog::Score;

// At most this many fractions and values a call: selection keeps counters for each.
constexpr int kMostPoints = 1000;

Interpolation AtFraction(const Score& score, double fraction, int64_t pooled) {
  return AtDistribution(score.inactive == Inactive::kBelow ? fraction : 1 - fraction, pooled);
}

bool IsInactive(const Score& score, float x, double threshold) {
  return score.inactive == Inactive::kBelow ? x < threshold : x > threshold;
}

// One score's pool: the selection of its thresholds and the counts at given values.
class Pool {
 public:
  Pool(const Score& score, std::span<const double> fractions, std::span<const double> values)
      : score_(score),
        fractions_(fractions.begin(), fractions.end()),
        values_(values.begin(), values.end()),
        inactive_(values.size(), 0),
        selector_([this](int64_t pooled) {
          std::vector<int64_t> ranks;
          for (const double fraction : fractions_) {
            const Interpolation at = AtFraction(score_, fraction, pooled);
            ranks.push_back(at.lower);
            ranks.push_back(at.upper);
          }
          return ranks;
        }) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Add(std::span<const float> scores, bool finite_sample) {
    if (!finite_sample) {
      if (first_pass_) left_out_ += static_cast<int64_t>(scores.size());
      return;
    }
    selector_.Add(scores);
    if (!first_pass_) return;
    for (size_t v = 0; v < values_.size(); ++v) {
      for (const float x : scores) {
        if (std::isfinite(x) && IsInactive(score_, x, values_[v])) ++inactive_[v];
      }
    }
  }

  void EndPass() {
    selector_.EndPass();
    first_pass_ = false;
  }

  bool done() const { return selector_.done(); }
  int64_t pooled() const { return selector_.count(); }
  int64_t non_finite() const { return selector_.non_finite() + left_out_; }

  double ThresholdAt(double fraction) const {
    const Interpolation at = AtFraction(score_, fraction, pooled());
    return at.Between(selector_.At(at.lower), selector_.At(at.upper));
  }
  double FractionAtValue(size_t v) const {
    return static_cast<double>(inactive_[v]) / static_cast<double>(pooled());
  }

 private:
  const Score& score_;
  std::vector<double> fractions_;
  std::vector<double> values_;
  std::vector<int64_t> inactive_;
  RankSelector selector_;
  int64_t left_out_ = 0;
  bool first_pass_ = true;
};

absl::Status CheckPoints(std::span<const double> fractions, std::span<const double> values) {
  if (fractions.size() + values.size() > kMostPoints) {
    return InvalidField(
        "fractions", absl::StrCat(fractions.size() + values.size()),
        absl::StrCat("at most ", kMostPoints, " fractions and values together are answered"));
  }
  for (size_t i = 0; i < fractions.size(); ++i) {
    if (!(fractions[i] >= 0 && fractions[i] <= 1)) {
      return InvalidField(absl::StrCat("fractions[", i, "]"), absl::StrCat(fractions[i]),
                          "must be from 0 to 1");
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return InvalidField(absl::StrCat("values[", i, "]"), absl::StrCat(values[i]),
                          "must be a finite number");
    }
  }
  return absl::OkStatus();
}

// As the engine takes it: in float32, and NaN where one of the heads' is.
float ScoreOfGroup(std::span<const float> heads, v1::GroupScore how) {
  float sum = 0, most = heads[0], least = heads[0];
  for (const float x : heads) {
    if (std::isnan(x)) return x;
    sum += x;
    most = std::max(most, x);
    least = std::min(least, x);
  }
  if (how == v1::GROUP_SCORE_MAX) return most;
  if (how == v1::GROUP_SCORE_MIN) return least;
  return sum / static_cast<float>(heads.size());
}

// Pools the scores, all in the same passes.
absl::StatusOr<std::vector<std::unique_ptr<Pool>>> PoolScores(ScoreReader& reader,
                                                              std::span<const Score* const> scores,
                                                              std::span<const double> fractions,
                                                              std::span<const double> values,
                                                              const ScorePool& pool) {
  const std::vector<uint8_t>& layers = pool.layers;
  if (!layers.empty() && layers.size() != static_cast<size_t>(reader.layers())) {
    return InvalidField("layers", absl::StrCat(layers.size()),
                        absl::StrCat("the model has ", reader.layers(), " layers"));
  }
  std::vector<std::unique_ptr<Pool>> pools;
  for (const Score* score : scores) {
    pools.push_back(std::make_unique<Pool>(*score, fractions, values));
  }
  if (pool.kv_heads > 0 && reader.heads() % pool.kv_heads != 0) {
    return InvalidField("unit", absl::StrCat(pool.kv_heads, " KV heads"),
                        absl::StrCat("the job's scores are of ", reader.heads(), " query heads"));
  }
  const auto units = static_cast<size_t>(pool.kv_heads > 0 ? pool.kv_heads : reader.heads());
  std::vector<float> of_groups;
  const auto all_done = [&] {
    return std::all_of(pools.begin(), pools.end(), [](const auto& pool) { return pool->done(); });
  };
  while (!all_done()) {
    HC_RETURN_IF_ERROR(reader.ForEachSample([&](const ScoreReader::Sample& sample) {
      for (size_t s = 0; s < pools.size(); ++s) {
        if (pools[s]->done()) continue;
        std::span<const float> of_sample(sample.scores[s]);
        if (pool.kv_heads > 0) {
          const int group = reader.heads() / pool.kv_heads;
          of_groups.resize(of_sample.size() / static_cast<size_t>(group));
          for (size_t g = 0; g < of_groups.size(); ++g) {
            const size_t first = g * static_cast<size_t>(group);
            of_groups[g] = ScoreOfGroup(of_sample.subspan(first, static_cast<size_t>(group)),
                                        pool.group_score);
          }
          of_sample = of_groups;
        }
        if (layers.empty()) {
          pools[s]->Add(of_sample, sample.finite);
          continue;
        }
        for (size_t layer = 0; layer < layers.size(); ++layer) {
          if (layers[layer] == 0) continue;
          pools[s]->Add(of_sample.subspan(layer * units, units), sample.finite);
        }
      }
    }));
    for (const auto& pool : pools) pool->EndPass();
  }
  for (size_t s = 0; s < pools.size(); ++s) {
    if (pools[s]->pooled() > 0) continue;
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "score '", scores[s]->id, "': none of its ", pools[s]->non_finite(),
                          " values over (sample, layer, head) is finite")),
                      "NON_FINITE");
  }
  return pools;
}

absl::StatusOr<ScoreReader> OpenReader(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                       const std::string& job,
                                       std::span<const Score* const> scores) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, job));
  std::vector<const catalog::Expression*> expressions;
  for (const Score* score : scores) expressions.push_back(&score->expression);
  return ScoreReader::Open(jobs, artifacts, results, std::move(expressions));
}

std::vector<const Score*> WithoutRandom(std::span<const Score* const> scores) {
  std::vector<const Score*> derived;
  for (const Score* score : scores) {
    if (!score->is_random()) derived.push_back(score);
  }
  return derived;
}

// 0/1 flags from a request's selection; empty: all.
absl::StatusOr<std::vector<uint8_t>> LayerFlags(const v1::LayerSelection& selection, int layers) {
  const bool include = selection.include_size() > 0;
  if (include && selection.exclude_size() > 0) {
    return InvalidField("layers", "include and exclude", "only one of them may be given");
  }
  const auto& listed = include ? selection.include() : selection.exclude();
  if (listed.empty()) return std::vector<uint8_t>();
  std::vector<uint8_t> flags(static_cast<size_t>(layers), include ? 0 : 1);
  for (const int32_t layer : listed) {
    if (layer < 0 || layer >= layers) {
      return InvalidField(include ? "layers.include" : "layers.exclude", absl::StrCat(layer),
                          absl::StrCat("the model has ", layers, " layers"));
    }
    flags[static_cast<size_t>(layer)] = include ? 1 : 0;
  }
  if (std::count(flags.begin(), flags.end(), 1) == 0) {
    return InvalidField("layers.exclude", absl::StrCat(selection.exclude_size(), " layers"),
                        "at least one layer must be left");
  }
  return flags;
}

absl::StatusOr<std::vector<const Score*>> RequestedScores(
    const v1::QueryThresholdsRequest& request) {
  std::vector<const Score*> scores;
  for (const std::string& name : request.scores()) {
    HC_ASSIGN_OR_RETURN(const Score* score, catalog::FindScore(name));
    if (std::find(scores.begin(), scores.end(), score) != scores.end()) {
      return InvalidField("scores", name, "is named twice");
    }
    scores.push_back(score);
  }
  if (scores.empty() && request.user_scores().empty()) {
    for (const Score& score : catalog::Scores()) scores.push_back(&score);
  }
  return scores;
}

// What of the pool the request says, but for the layers.
absl::StatusOr<ScorePool> PoolOf(const v1::QueryThresholdsRequest& request,
                                 const catalog::ModelConfig* model, int heads) {
  ScorePool pool;
  const bool groups = request.unit() == v1::UNIT_KV_GROUP;
  if (!v1::Unit_IsValid(request.unit())) {
    return InvalidField("unit", absl::StrCat(request.unit()), "is not a unit");
  }
  if (request.group_score() != v1::GROUP_SCORE_UNSPECIFIED) {
    if (!groups || !v1::GroupScore_IsValid(request.group_score())) {
      return InvalidField("group_score", absl::StrCat(request.group_score()),
                          "must be mean, max or min, and needs unit UNIT_KV_GROUP");
    }
    pool.group_score = request.group_score();
  }
  if (request.kv_groups() && groups) {
    return InvalidField("kv_groups", "true",
                        "counts groups by their query heads; leave `unit` at query heads");
  }
  if (!groups && !request.kv_groups()) return pool;
  if (model == nullptr) {
    return WithReason(absl::FailedPreconditionError(
                          "the job's model is not in the catalogue any more: its KV heads are not "
                          "known"),
                      "MODEL_NOT_FOUND");
  }
  if (model->heads != heads) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat("the model in the catalogue has ", model->heads,
                                                   " query heads, the job was run with ", heads)),
        "MODEL_CHANGED");
  }
  if (groups) pool.kv_heads = model->kv_heads;
  return pool;
}

// Of every table but that of `random`, in the order of `derived`.
absl::Status AddKvGroups(store::JobStore& jobs, store::ArtifactStore& artifacts,
                         const std::string& job, std::span<const Score* const> derived,
                         const ScorePool& pool, const catalog::ModelConfig& model,
                         ScoreReader& reader, v1::QueryThresholdsResponse* response) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, job));
  HC_ASSIGN_OR_RETURN(const auto manifest, ReadManifest(artifacts, results.manifest_digest));
  std::vector<v1::ThresholdTable*> tables;
  for (v1::ThresholdTable& table : *response->mutable_tables()) {
    const auto of_score = [&](const Score* score) { return score->id == table.score(); };
    if (std::any_of(derived.begin(), derived.end(), of_score)) tables.push_back(&table);
  }
  return AddKvGroups(reader, derived, pool.layers, model, MeanKeys(*manifest), tables);
}

v1::ThresholdTable RandomTable(const Score& score, std::span<const double> fractions,
                               std::span<const double> values) {
  v1::ThresholdTable table;
  table.set_score(score.id);
  table.set_inactive_side("<");
  const auto add = [&](double fraction, double value) {
    v1::ThresholdPoint* point = table.add_points();
    point->set_fraction(fraction);
    point->set_value(value);
  };
  for (const double fraction : fractions) add(fraction, fraction);
  for (const double value : values) add(std::clamp(value, 0.0, 1.0), value);
  return table;
}

v1::ThresholdTable TableOf(const Score& score, const Pool& pool, std::span<const double> fractions,
                           std::span<const double> values) {
  v1::ThresholdTable table;
  table.set_score(score.id);
  table.set_inactive_side(score.inactive == Inactive::kBelow ? "<" : ">");
  table.set_pooled(pool.pooled());
  table.set_non_finite(pool.non_finite());
  for (const double fraction : fractions) {
    v1::ThresholdPoint* point = table.add_points();
    point->set_fraction(fraction);
    point->set_value(pool.ThresholdAt(fraction));
  }
  for (size_t v = 0; v < values.size(); ++v) {
    v1::ThresholdPoint* point = table.add_points();
    point->set_fraction(pool.FractionAtValue(v));
    point->set_value(values[v]);
  }
  return table;
}

}  // namespace

absl::StatusOr<std::vector<double>> ThresholdsAtFractions(
    store::JobStore& jobs, store::ArtifactStore& artifacts, const std::string& job,
    const Score& score, std::span<const double> fractions, const ScorePool& pool) {
  const Score* const scores[] = {&score};
  HC_ASSIGN_OR_RETURN(std::vector<std::vector<double>> thresholds,
                      ThresholdsAtFractions(jobs, artifacts, job, scores, fractions, pool));
  return std::move(thresholds.front());
}

absl::StatusOr<std::vector<std::vector<double>>> ThresholdsAtFractions(
    store::JobStore& jobs, store::ArtifactStore& artifacts, const std::string& job,
    std::span<const Score* const> scores, std::span<const double> fractions,
    const ScorePool& pool) {
  HC_RETURN_IF_ERROR(CheckPoints(fractions, {}));
  const std::vector<const Score*> derived = WithoutRandom(scores);
  std::vector<std::unique_ptr<Pool>> pools;
  if (!derived.empty()) {
    HC_ASSIGN_OR_RETURN(ScoreReader reader, OpenReader(jobs, artifacts, job, derived));
    if (!reader.complete()) return ResultsNotReady(job, "complete set of scores");
    HC_ASSIGN_OR_RETURN(pools, PoolScores(reader, derived, fractions, {}, pool));
  }
  std::vector<std::vector<double>> thresholds;
  size_t next_pool = 0;
  for (const Score* score : scores) {
    std::vector<double>& of_score = thresholds.emplace_back();
    const Pool* pooled = score->is_random() ? nullptr : pools[next_pool++].get();
    for (const double fraction : fractions) {
      of_score.push_back(pooled == nullptr ? fraction : pooled->ThresholdAt(fraction));
    }
  }
  return thresholds;
}

absl::StatusOr<v1::QueryThresholdsResponse> QueryThresholds(
    store::JobStore& jobs, store::ArtifactStore& artifacts,
    const v1::QueryThresholdsRequest& request, const catalog::ModelConfig* model) {
  const std::span<const double> fractions(request.fractions().data(),
                                          static_cast<size_t>(request.fractions_size()));
  const std::span<const double> values(request.values().data(),
                                       static_cast<size_t>(request.values_size()));
  HC_RETURN_IF_ERROR(CheckPoints(fractions, values));
  HC_ASSIGN_OR_RETURN(std::vector<const Score*> scores, RequestedScores(request));
  HC_ASSIGN_OR_RETURN(const auto user_scores, UserScoresOf(request.user_scores(), "user_scores"));
  for (const auto& score : user_scores) scores.push_back(score.get());
  const std::vector<const Score*> derived = WithoutRandom(scores);
  HC_ASSIGN_OR_RETURN(ScoreReader reader, OpenReader(jobs, artifacts, request.job(), derived));
  HC_ASSIGN_OR_RETURN(ScorePool pool, PoolOf(request, model, reader.heads()));
  HC_ASSIGN_OR_RETURN(pool.layers, LayerFlags(request.layers(), reader.layers()));
  HC_ASSIGN_OR_RETURN(const auto pools, PoolScores(reader, derived, fractions, values, pool));
  v1::QueryThresholdsResponse response;
  response.set_complete(reader.complete());
  size_t next_pool = 0;
  for (const Score* score : scores) {
    *response.add_tables() = score->is_random()
                                 ? RandomTable(*score, fractions, values)
                                 : TableOf(*score, *pools[next_pool++], fractions, values);
  }
  if (request.kv_groups()) {
    HC_RETURN_IF_ERROR(
        AddKvGroups(jobs, artifacts, request.job(), derived, pool, *model, reader, &response));
  }
  return response;
}

}  // namespace headcount::results
