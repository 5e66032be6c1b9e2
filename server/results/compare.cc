// See compare.h.

#include "server/results/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "common/format/job_kind.h"
#include "server/results/child_name.h"
#include "server/results/distances.h"
#include "server/results/job_results.h"
#include "server/results/quantiles.h"
#include "server/results/ranks.h"
#include "server/results/score_reader.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kDefaultFraction = .1;

// One job's side of the comparison.
struct Side {
  JobResults results;
  std::shared_ptr<const v1::Manifest> manifest;
  double mean_tokens = 0;
};

// All values of one score: [layer x heads + head][sample], NaN where a sample has none.
struct Values {
  int layers = 0;
  int heads = 0;
  int64_t samples = 0;
  std::vector<std::vector<float>> of_head;
  double threshold = 0;  // at the fraction of the pool
};

absl::StatusOr<Side> OpenSide(store::JobStore& jobs, store::ArtifactStore& artifacts,
                              const std::string& job) {
  Side side;
  HC_ASSIGN_OR_RETURN(side.results, OpenResults(jobs, job));
  HC_RETURN_IF_ERROR(ScoreStage(side.results).status());
  HC_ASSIGN_OR_RETURN(side.manifest, ReadManifest(artifacts, side.results.manifest_digest));
  double tokens = 0;
  for (const v1::ManifestSample& sample : side.manifest->samples()) {
    tokens += side.manifest->groups(static_cast<int>(sample.group())).prefix_size() +
              sample.suffix_size();
  }
  side.mean_tokens = tokens / std::max(1, side.manifest->samples_size());
  return side;
}

// The same inputs in the same order: every sample has the digest of all its token ids.
bool SameInputs(const v1::Manifest& a, const v1::Manifest& b) {
  if (a.samples_size() != b.samples_size()) return false;
  for (int i = 0; i < a.samples_size(); ++i) {
    if (a.samples(i).digest() != b.samples(i).digest()) return false;
  }
  return true;
}

absl::StatusOr<Values> ReadValues(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                  const Side& side, const catalog::Score& score, double fraction) {
  HC_ASSIGN_OR_RETURN(ScoreReader reader,
                      ScoreReader::Open(jobs, artifacts, side.results, {&score.expression}));
  Values values;
  values.layers = reader.layers();
  values.heads = reader.heads();
  values.samples = side.manifest->samples_size();
  const int64_t heads = int64_t{values.layers} * values.heads;
  if (heads * values.samples > kMostCompared) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          side.results.job.name(), " has ", values.samples, " samples x ", heads,
                          " heads; at most ", kMostCompared, " values are compared")),
                      "TOO_LARGE");
  }
  values.of_head.assign(static_cast<size_t>(heads),
                        std::vector<float>(static_cast<size_t>(values.samples),
                                           std::numeric_limits<float>::quiet_NaN()));
  std::vector<float> pool;
  HC_RETURN_IF_ERROR(reader.ForEachSample([&](const ScoreReader::Sample& sample) {
    if (!sample.finite) return;
    for (size_t h = 0; h < values.of_head.size(); ++h) {
      const float x = sample.scores[0][h];
      if (!std::isfinite(x)) continue;
      values.of_head[h][static_cast<size_t>(sample.index)] = x;
      pool.push_back(x);
    }
  }));
  values.threshold = kNaN;
  if (!pool.empty()) {
    const bool below = score.inactive == catalog::Inactive::kBelow;
    const Interpolation at =
        AtDistribution(below ? fraction : 1 - fraction, static_cast<int64_t>(pool.size()));
    const auto value_at = [&pool](int64_t rank) {
      std::nth_element(pool.begin(), pool.begin() + rank, pool.end());
      return double{pool[static_cast<size_t>(rank)]};
    };
    const double lower = value_at(at.lower);
    values.threshold = at.Between(lower, value_at(at.upper));
  }
  return values;
}

std::vector<float> Sorted(std::span<const std::vector<float>> columns) {
  std::vector<float> all;
  for (const std::vector<float>& column : columns) {
    for (const float x : column) {
      if (!std::isnan(x)) all.push_back(x);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

double MeanOf(const std::vector<float>& column) {
  double sum = 0;
  int64_t n = 0;
  for (const float x : column) {
    if (std::isnan(x)) continue;
    sum += x;
    ++n;
  }
  return n > 0 ? sum / static_cast<double>(n) : kNaN;
}

bool IsInactive(const catalog::Score& score, float x, double threshold) {
  return score.inactive == catalog::Inactive::kBelow ? x < threshold : x > threshold;
}

// The share of samples in which each head is inactive.
std::vector<double> InactiveShares(const catalog::Score& score, const Values& values) {
  std::vector<double> shares;
  for (const std::vector<float>& column : values.of_head) {
    int64_t n = 0;
    int64_t inactive = 0;
    for (const float x : column) {
      if (std::isnan(x)) continue;
      ++n;
      inactive += IsInactive(score, x, values.threshold) ? 1 : 0;
    }
    shares.push_back(n > 0 ? static_cast<double>(inactive) / static_cast<double>(n) : kNaN);
  }
  return shares;
}

std::span<const std::vector<float>> Layer(const Values& values, int layer) {
  return std::span(values.of_head)
      .subspan(static_cast<size_t>(layer) * static_cast<size_t>(values.heads),
               static_cast<size_t>(values.heads));
}

// Layer `layer` of a laid over b by relative depth.
int MatchingLayer(int layer, int layers_a, int layers_b) {
  if (layers_a < 2) return 0;
  return static_cast<int>(std::lround(double{1} * layer * (layers_b - 1) / (layers_a - 1)));
}

void CompareLayers(const Values& a, const Values& b, v1::ScoreComparison* out) {
  for (int layer = 0; layer < a.layers; ++layer) {
    const int other = MatchingLayer(layer, a.layers, b.layers);
    const std::vector<float> of_a = Sorted(Layer(a, layer));
    const std::vector<float> of_b = Sorted(Layer(b, other));
    v1::LayerComparison& at = *out->add_layers();
    at.set_layer_a(layer);
    at.set_layer_b(other);
    at.set_wasserstein(Wasserstein1(of_a, of_b));
    at.set_kolmogorov_smirnov(KolmogorovSmirnov(of_a, of_b));
  }
}

// What needs a head here to be a head there.
void CompareHeads(const catalog::Score& score_a, const catalog::Score& score_b, const Values& a,
                  const Values& b, bool same_inputs, v1::ScoreComparison* out) {
  std::vector<double> means_a;
  std::vector<double> means_b;
  for (size_t h = 0; h < a.of_head.size(); ++h) {
    const std::vector<float> of_a = Sorted(std::span(&a.of_head[h], 1));
    const std::vector<float> of_b = Sorted(std::span(&b.of_head[h], 1));
    out->add_wasserstein(Wasserstein1(of_a, of_b));
    out->add_kolmogorov_smirnov(KolmogorovSmirnov(of_a, of_b));
    const double mean_a = MeanOf(a.of_head[h]);
    const double mean_b = MeanOf(b.of_head[h]);
    if (std::isnan(mean_a) || std::isnan(mean_b)) continue;
    means_a.push_back(mean_a);
    means_b.push_back(mean_b);
  }
  out->set_spearman(Spearman(means_a, means_b));
  const std::vector<double> shares_a = InactiveShares(score_a, a);
  const std::vector<double> shares_b = InactiveShares(score_b, b);
  int both = 0;
  int either = 0;
  for (size_t h = 0; h < shares_a.size(); ++h) {
    const bool in_a = shares_a[h] >= .5;
    const bool in_b = shares_b[h] >= .5;
    both += in_a && in_b ? 1 : 0;
    either += in_a || in_b ? 1 : 0;
  }
  out->set_inactive_overlap(either > 0 ? static_cast<double>(both) / either : kNaN);
  if (!same_inputs) return;
  for (size_t h = 0; h < a.of_head.size(); ++h) {
    int64_t n = 0;
    int64_t fell_asleep = 0;
    int64_t woke_up = 0;
    for (size_t i = 0; i < a.of_head[h].size(); ++i) {
      const float x = a.of_head[h][i];
      const float y = b.of_head[h][i];
      if (std::isnan(x) || std::isnan(y)) continue;
      const bool before = IsInactive(score_a, x, a.threshold);
      const bool after = IsInactive(score_b, y, b.threshold);
      ++n;
      fell_asleep += !before && after ? 1 : 0;
      woke_up += before && !after ? 1 : 0;
    }
    const auto share = [n](int64_t count) {
      return n > 0 ? static_cast<double>(count) / static_cast<double>(n) : kNaN;
    };
    out->add_to_inactive(share(fell_asleep));
    out->add_to_active(share(woke_up));
  }
}

absl::StatusOr<const catalog::Score*> Measured(const std::string& field, const std::string& name) {
  HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(name));
  if (!score->is_random()) return score;
  return InvalidField(field, name, "is drawn, not measured: there is nothing to compare");
}

void Warn(const Side& a, const Side& b, v1::Comparison* answer) {
  if (!answer->same_inputs()) {
    answer->add_warnings("the jobs ran different token ids: samples are not paired");
  }
  if (std::abs(a.mean_tokens - b.mean_tokens) > .1 * std::max(a.mean_tokens, b.mean_tokens)) {
    answer->add_warnings(
        absl::StrCat("inputs differ in length: ", std::lround(a.mean_tokens), " against ",
                     std::lround(b.mean_tokens),
                     " tokens on average; entropy and the weight of the first token depend on it"));
  }
  if (!answer->same_shape()) {
    answer->add_warnings(
        "the models differ in layers or heads: layers are laid over each other by relative depth, "
        "heads are not compared");
  }
}

}  // namespace

absl::StatusOr<v1::Comparison> CompareScores(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                             const v1::CompareScoresRequest& request) {
  const double fraction = request.fraction() == 0 ? kDefaultFraction : request.fraction();
  if (!(fraction > 0 && fraction < 1)) {
    return InvalidField("fraction", absl::StrCat(fraction), "must be above 0 and below 1");
  }
  if (request.scores().empty()) {
    return InvalidField("scores", "", "must name at least one score");
  }
  HC_ASSIGN_OR_RETURN(const Side a, OpenSide(jobs, artifacts, request.job_a()));
  HC_ASSIGN_OR_RETURN(const Side b, OpenSide(jobs, artifacts, request.job_b()));
  v1::Comparison answer;
  answer.set_fraction(fraction);
  answer.set_same_inputs(SameInputs(*a.manifest, *b.manifest));
  answer.set_mean_tokens_a(a.mean_tokens);
  answer.set_mean_tokens_b(b.mean_tokens);
  for (int i = 0; i < request.scores_size(); ++i) {
    HC_ASSIGN_OR_RETURN(const catalog::Score* score_a,
                        Measured(absl::StrCat("scores[", i, "]"), request.scores(i)));
    const catalog::Score* score_b = score_a;
    if (!request.score_b().empty()) {
      HC_ASSIGN_OR_RETURN(score_b, Measured("score_b", request.score_b()));
    }
    HC_ASSIGN_OR_RETURN(const Values of_a, ReadValues(jobs, artifacts, a, *score_a, fraction));
    HC_ASSIGN_OR_RETURN(const Values of_b, ReadValues(jobs, artifacts, b, *score_b, fraction));
    answer.set_layers_a(of_a.layers);
    answer.set_layers_b(of_b.layers);
    answer.set_heads_a(of_a.heads);
    answer.set_heads_b(of_b.heads);
    answer.set_samples_a(of_a.samples);
    answer.set_samples_b(of_b.samples);
    answer.set_same_shape(of_a.layers == of_b.layers && of_a.heads == of_b.heads);
    v1::ScoreComparison& out = *answer.add_scores();
    out.set_score_a(score_a->id);
    out.set_score_b(score_b->id);
    out.set_threshold_a(of_a.threshold);
    out.set_threshold_b(of_b.threshold);
    CompareLayers(of_a, of_b, &out);
    if (answer.same_shape()) {
      CompareHeads(*score_a, *score_b, of_a, of_b, answer.same_inputs(), &out);
    }
  }
  Warn(a, b, &answer);
  const auto describe = [](const Side& side, std::string* job, std::string* model,
                           std::string* task) {
    *job = side.results.job.name();
    *model = format::WorkloadOf(side.results.job).model();
    *task = format::WorkloadOf(side.results.job).task().task();
  };
  describe(a, answer.mutable_job_a(), answer.mutable_model_a(), answer.mutable_task_a());
  describe(b, answer.mutable_job_b(), answer.mutable_model_b(), answer.mutable_task_b());
  return answer;
}

absl::StatusOr<v1::Comparisons> GetComparison(store::JobStore& jobs,
                                              store::ArtifactStore& artifacts,
                                              const v1::GetComparisonRequest& request) {
  HC_ASSIGN_OR_RETURN(const v1::Job job, jobs.GetJob(request.job()));
  if (!job.has_compare()) return WrongKind(job, "compare");
  const v1::CompareSpec& spec = job.compare();
  v1::Comparisons answer;
  answer.set_complete(job.state() == v1::Job::SUCCEEDED);
  const int sides = 1 + spec.models_size() + spec.tasks_size();
  for (int side = 1; side < sides; ++side) {
    v1::CompareScoresRequest pair;
    pair.set_job_a(ChildName(job.name(), spec.consecutive() ? side - 1 : 0));
    pair.set_job_b(ChildName(job.name(), side));
    *pair.mutable_scores() = spec.scores();
    pair.set_fraction(spec.fraction());
    absl::StatusOr<v1::Comparison> compared = CompareScores(jobs, artifacts, pair);
    if (absl::IsNotFound(compared.status())) {
      return ResultsNotReady(job.name(), "scores of all sides");
    }
    HC_RETURN_IF_ERROR(compared.status());
    *answer.add_comparisons() = *std::move(compared);
  }
  return answer;
}

}  // namespace headcount::results
