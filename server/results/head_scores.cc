// See head_scores.h.

#include "server/results/head_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "server/results/job_results.h"
#include "server/results/quantiles.h"
#include "server/results/score_reader.h"
#include "server/results/user_scores.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kDefaultQuantiles[] = {.05, .25, .5, .75, .95};
constexpr int kMostQuantiles = 100;

// Mean and variance of a head's scores by Welford's update, and how many are inactive.
struct Moments {
  int64_t n = 0;
  double mean = 0;
  double squares = 0;
  int64_t inactive = 0;

  void Add(double x) {
    ++n;
    const double delta = x - mean;
    mean += delta / static_cast<double>(n);
    squares += delta * (x - mean);
  }
};

absl::StatusOr<std::vector<double>> Quantiles(const v1::GetHeadScoresRequest& request) {
  if (request.quantiles().empty()) {
    return std::vector<double>(std::begin(kDefaultQuantiles), std::end(kDefaultQuantiles));
  }
  if (request.quantiles_size() > kMostQuantiles) {
    return InvalidField("quantiles", absl::StrCat(request.quantiles_size()),
                        absl::StrCat("at most ", kMostQuantiles, " are answered"));
  }
  for (int i = 0; i < request.quantiles_size(); ++i) {
    if (!(request.quantiles(i) >= 0 && request.quantiles(i) <= 1)) {
      return InvalidField(absl::StrCat("quantiles[", i, "]"), absl::StrCat(request.quantiles(i)),
                          "must be from 0 to 1");
    }
  }
  return std::vector<double>(request.quantiles().begin(), request.quantiles().end());
}

// Fills [quantile][head] for heads [first, first + columns.size()).
void FillQuantiles(std::span<std::vector<float>> columns, size_t first, size_t all_heads,
                   std::span<const double> quantiles, std::vector<double>* out) {
  for (size_t h = 0; h < columns.size(); ++h) {
    std::vector<float>& column = columns[h];
    std::sort(column.begin(), column.end());
    for (size_t q = 0; q < quantiles.size() && !column.empty(); ++q) {
      const Interpolation at = AtQuantile(quantiles[q], static_cast<int64_t>(column.size()));
      (*out)[q * all_heads + first + h] =
          at.Between(column[static_cast<size_t>(at.lower)], column[static_cast<size_t>(at.upper)]);
    }
    column.clear();
  }
}

// 0/1 a sample of the manifest, of those of a subtask.
absl::StatusOr<std::vector<uint8_t>> SamplesOf(store::ArtifactStore& artifacts,
                                               const JobResults& results,
                                               const std::string& subtask) {
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Manifest> manifest,
                      ReadManifest(artifacts, results.manifest_digest));
  std::vector<uint8_t> wanted;
  bool any = false;
  for (const v1::ManifestSample& sample : manifest->samples()) {
    wanted.push_back(
        manifest->documents(static_cast<int>(sample.document())).subtask() == subtask ? 1 : 0);
    any = any || wanted.back() == 1;
  }
  if (any) return wanted;
  return InvalidField("subtask", subtask, "is no subtask of the job's documents");
}

}  // namespace

absl::StatusOr<v1::HeadScores> GetHeadScores(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                             const v1::GetHeadScoresRequest& request,
                                             int64_t memory) {
  std::shared_ptr<const catalog::Score> user_score;  // outlives the reader
  const catalog::Score* score = nullptr;
  if (request.has_user_score()) {
    if (!request.score().empty()) {
      return InvalidField("score", request.score(), "must be empty where user_score is set");
    }
    HC_ASSIGN_OR_RETURN(user_score, UserScoreOf(request.user_score(), "user_score"));
    score = user_score.get();
  } else {
    HC_ASSIGN_OR_RETURN(score, catalog::FindScore(request.score()));
  }
  if (score->is_random()) {
    return InvalidField("score", request.score(),
                        "is drawn, not measured: uniform on [0, 1) for every head");
  }
  HC_ASSIGN_OR_RETURN(const std::vector<double> quantiles, Quantiles(request));
  if (request.has_threshold() && !std::isfinite(request.threshold())) {
    return InvalidField("threshold", absl::StrCat(request.threshold()), "must be a finite number");
  }
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, request.job()));
  HC_ASSIGN_OR_RETURN(ScoreReader reader,
                      ScoreReader::Open(jobs, artifacts, results, {&score->expression}));

  std::vector<uint8_t> wanted;  // empty: every sample
  if (!request.subtask().empty()) {
    HC_ASSIGN_OR_RETURN(wanted, SamplesOf(artifacts, results, request.subtask()));
  }
  const bool below = score->inactive == catalog::Inactive::kBelow;
  const auto heads = static_cast<size_t>(reader.layers()) * static_cast<size_t>(reader.heads());
  const auto block = static_cast<size_t>(std::clamp<int64_t>(
      memory / (std::max<int64_t>(1, reader.stored_samples()) * int64_t{sizeof(float)}), 1,
      static_cast<int64_t>(heads)));
  std::vector<Moments> moments(heads);
  std::vector<std::vector<float>> columns(block);
  std::vector<double> quantile_values(quantiles.size() * heads, kNaN);
  int64_t non_finite = 0;
  int64_t samples = 0;
  for (size_t first = 0; first < heads; first += block) {
    const size_t end = std::min(heads, first + block);
    HC_RETURN_IF_ERROR(reader.ForEachSample([&](const ScoreReader::Sample& sample) {
      if (!wanted.empty() && wanted[static_cast<size_t>(sample.index)] == 0) return;
      if (first == 0) ++samples;
      const std::vector<float>& scores = sample.scores[0];
      for (size_t h = first == 0 ? 0 : first; h < (first == 0 ? heads : end); ++h) {
        const float x = scores[h];
        const bool finite = sample.finite && std::isfinite(x);
        if (finite && h < end) columns[h - first].push_back(x);
        if (first != 0) continue;  // moments come from the first pass
        if (!finite) {
          ++non_finite;
          continue;
        }
        moments[h].Add(x);
        if (request.has_threshold() &&
            (below ? x < request.threshold() : x > request.threshold())) {
          ++moments[h].inactive;
        }
      }
    }));
    FillQuantiles(std::span(columns).first(end - first), first, heads, quantiles, &quantile_values);
  }

  v1::HeadScores answer;
  answer.set_score(score->id);
  answer.set_unit(score->unit);
  answer.set_layers(reader.layers());
  answer.set_heads(reader.heads());
  answer.set_samples(samples);
  answer.set_non_finite(non_finite);
  answer.set_complete(reader.complete());
  answer.set_inactive_side(below ? "<" : ">");
  unsigned shared = 0;  // measurements that query heads of one group share
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    if (info.per_kv_head) shared |= 1u << static_cast<int>(info.measurement);
  }
  answer.set_per_kv_head((score->expression.measurements() & ~shared) == 0);
  for (const Moments& head : moments) {
    answer.add_mean(head.n > 0 ? head.mean : kNaN);
    answer.add_standard_deviation(head.n > 1
                                      ? std::sqrt(head.squares / static_cast<double>(head.n - 1))
                                      : (head.n == 1 ? 0 : kNaN));
    if (request.has_threshold()) {
      answer.add_inactive_fraction(
          head.n > 0 ? static_cast<double>(head.inactive) / static_cast<double>(head.n) : kNaN);
    }
  }
  answer.mutable_quantiles()->Assign(quantiles.begin(), quantiles.end());
  answer.mutable_quantile_values()->Assign(quantile_values.begin(), quantile_values.end());
  return answer;
}

}  // namespace headcount::results
