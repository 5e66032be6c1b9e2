// See score_means.h.

#include "server/results/score_means.h"

#include <cmath>
#include <limits>

#include "common/base/status_macros.h"
#include "server/results/job_results.h"
#include "server/results/score_reader.h"

namespace headcount::results {

absl::StatusOr<ScoreMeans> ReadScoreMeans(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                          const std::string& job,
                                          std::span<const catalog::Score* const> scores) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, job));
  std::vector<const catalog::Expression*> expressions;
  for (const catalog::Score* score : scores) expressions.push_back(&score->expression);
  HC_ASSIGN_OR_RETURN(ScoreReader reader,
                      ScoreReader::Open(jobs, artifacts, results, std::move(expressions)));
  ScoreMeans means;
  means.layers = reader.layers();
  means.heads = reader.heads();
  means.samples = reader.stored_samples();
  const auto heads = static_cast<size_t>(means.layers) * static_cast<size_t>(means.heads);
  means.values.assign(scores.size(), std::vector<double>(heads, 0));
  std::vector<std::vector<int64_t>> counts(scores.size(), std::vector<int64_t>(heads, 0));
  HC_RETURN_IF_ERROR(reader.ForEachSample([&](const ScoreReader::Sample& sample) {
    if (!sample.finite) return;
    for (size_t s = 0; s < scores.size(); ++s) {
      for (size_t h = 0; h < heads; ++h) {
        const float x = sample.scores[s][h];
        if (!std::isfinite(x)) continue;
        means.values[s][h] += x;
        ++counts[s][h];
      }
    }
  }));
  for (size_t s = 0; s < scores.size(); ++s) {
    for (size_t h = 0; h < heads; ++h) {
      means.values[s][h] = counts[s][h] > 0 ? means.values[s][h] / static_cast<double>(counts[s][h])
                                            : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return means;
}

}  // namespace headcount::results
