// See inactivity.h.

#include "server/results/inactivity.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "server/results/curves.h"
#include "server/results/job_results.h"
#include "server/results/score_reader.h"
#include "server/results/thresholds.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

InactiveCount operator+(const InactiveCount& a, const InactiveCount& b) {
  return {a.samples + b.samples, a.inactive + b.inactive};
}

double Share(const InactiveCount& count) {
  return count.samples > 0
             ? static_cast<double>(count.inactive) / static_cast<double>(count.samples)
             : kNaN;
}

// n (p - around)^2, nothing for nothing.
double Squares(const InactiveCount& count, double around) {
  if (count.samples == 0) return 0;
  const double distance = Share(count) - around;
  return static_cast<double>(count.samples) * distance * distance;
}

absl::StatusOr<double> ThresholdOf(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                   const v1::GetInactivityRequest& request,
                                   const catalog::Score& score) {
  if (request.has_threshold() == request.has_fraction()) {
    return InvalidField("threshold", request.has_threshold() ? "and fraction" : "",
                        "exactly one of threshold and fraction must be given");
  }
  if (request.has_threshold()) {
    if (std::isfinite(request.threshold())) return request.threshold();
    return InvalidField("threshold", absl::StrCat(request.threshold()), "must be a finite number");
  }
  v1::QueryThresholdsRequest query;
  query.set_job(request.job());
  query.add_scores(score.id);
  query.add_fractions(request.fraction());
  absl::StatusOr<v1::QueryThresholdsResponse> answer = QueryThresholds(jobs, artifacts, query);
  if (FieldOf(answer.status()) == "fractions[0]") {
    return InvalidField("fraction", absl::StrCat(request.fraction()), "must be from 0 to 1");
  }
  HC_RETURN_IF_ERROR(answer.status());
  return answer->tables(0).points(0).value();
}

v1::Inactivity::Kind KindOf(double share) {
  if (share >= kAlways) return v1::Inactivity::ALWAYS;
  if (share <= 1 - kAlways) return v1::Inactivity::NEVER;
  return std::isnan(share) ? v1::Inactivity::KIND_UNSPECIFIED : v1::Inactivity::SOMETIMES;
}

// The subtasks in the order of their first document.
std::vector<std::string> NamesOf(const v1::Manifest& manifest, const Subtasks& subtasks) {
  std::vector<std::string> names(static_cast<size_t>(subtasks.count));
  for (int d = 0; d < manifest.documents_size(); ++d) {
    names[static_cast<size_t>(subtasks.of_document[static_cast<size_t>(d)])] =
        manifest.documents(d).subtask();
  }
  return names;
}

void Show(std::span<const InactiveCount> counts, const std::vector<std::string>& names, int layers,
          int heads, v1::Inactivity* answer) {
  const auto all_heads = static_cast<size_t>(layers) * static_cast<size_t>(heads);
  std::vector<InactiveCount> over_all(all_heads);
  for (size_t g = 0; g < names.size(); ++g) {
    v1::SubtaskInactivity& subtask = *answer->add_subtasks();
    subtask.set_subtask(names[g]);
    for (size_t h = 0; h < all_heads; ++h) {
      const InactiveCount& count = counts[g * all_heads + h];
      over_all[h] = over_all[h] + count;
      subtask.add_share(Share(count));
      subtask.set_samples(std::max(subtask.samples(), count.samples));
    }
  }
  for (const InactiveCount& count : over_all) {
    const double share = Share(count);
    answer->add_share(share);
    answer->add_kinds(KindOf(share));
    switch (KindOf(share)) {
      case v1::Inactivity::ALWAYS:
        answer->set_always(answer->always() + 1);
        break;
      case v1::Inactivity::NEVER:
        answer->set_never(answer->never() + 1);
        break;
      case v1::Inactivity::SOMETIMES:
        answer->set_sometimes(answer->sometimes() + 1);
        break;
      default:
        break;
    }
  }
  const VarianceSplit split = SplitVariance(counts, static_cast<int>(names.size()), layers, heads);
  const double total = split.total();
  const auto part = [total](double squares) { return total > 0 ? squares / total : kNaN; };
  v1::InactivityVariance& variance = *answer->mutable_variance();
  variance.set_layer(part(split.layer));
  variance.set_head(part(split.head));
  variance.set_subtask(part(split.subtask));
  variance.set_sample(part(split.sample));
}

}  // namespace

VarianceSplit SplitVariance(std::span<const InactiveCount> counts, int subtasks, int layers,
                            int heads) {
  const auto at = [&](int subtask, int layer, int head) -> const InactiveCount& {
    return counts[static_cast<size_t>((int64_t{subtask} * layers + layer) * heads + head)];
  };
  InactiveCount all;
  for (const InactiveCount& count : counts) all = all + count;
  VarianceSplit split;
  for (int layer = 0; layer < layers; ++layer) {
    InactiveCount of_layer;
    for (int head = 0; head < heads; ++head) {
      for (int g = 0; g < subtasks; ++g) of_layer = of_layer + at(g, layer, head);
    }
    split.layer += Squares(of_layer, Share(all));
    for (int head = 0; head < heads; ++head) {
      InactiveCount of_head;
      for (int g = 0; g < subtasks; ++g) of_head = of_head + at(g, layer, head);
      split.head += Squares(of_head, Share(of_layer));
      for (int g = 0; g < subtasks; ++g) {
        const InactiveCount& count = at(g, layer, head);
        split.subtask += Squares(count, Share(of_head));
        if (count.samples == 0) continue;
        split.sample += static_cast<double>(count.samples) * Share(count) * (1 - Share(count));
      }
    }
  }
  return split;
}

absl::StatusOr<v1::Inactivity> GetInactivity(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                             const v1::GetInactivityRequest& request) {
  HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(request.score()));
  if (score->is_random()) {
    return InvalidField("score", request.score(),
                        "is drawn, not measured: every head is inactive equally often");
  }
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, request.job()));
  HC_ASSIGN_OR_RETURN(ScoreReader reader,
                      ScoreReader::Open(jobs, artifacts, results, {&score->expression}));
  HC_ASSIGN_OR_RETURN(const double threshold, ThresholdOf(jobs, artifacts, request, *score));
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Manifest> manifest,
                      ReadManifest(artifacts, results.manifest_digest));
  const Subtasks subtasks = SubtasksOf(*manifest);
  const bool below = score->inactive == catalog::Inactive::kBelow;
  const auto heads = static_cast<size_t>(reader.layers()) * static_cast<size_t>(reader.heads());
  std::vector<InactiveCount> counts(static_cast<size_t>(subtasks.count) * heads);
  HC_RETURN_IF_ERROR(reader.ForEachSample([&](const ScoreReader::Sample& sample) {
    if (!sample.finite) return;
    const int64_t document = manifest->samples(static_cast<int>(sample.index)).document();
    const auto g = static_cast<size_t>(subtasks.of_document[static_cast<size_t>(document)]);
    for (size_t h = 0; h < heads; ++h) {
      const float x = sample.scores[0][h];
      if (!std::isfinite(x)) continue;
      ++counts[g * heads + h].samples;
      counts[g * heads + h].inactive += (below ? x < threshold : x > threshold) ? 1 : 0;
    }
  }));
  v1::Inactivity answer;
  answer.set_score(score->id);
  answer.set_threshold(threshold);
  answer.set_inactive_side(below ? "<" : ">");
  answer.set_layers(reader.layers());
  answer.set_heads(reader.heads());
  answer.set_samples(reader.stored_samples());
  answer.set_complete(reader.complete());
  Show(counts, NamesOf(*manifest, subtasks), reader.layers(), reader.heads(), &answer);
  return answer;
}

}  // namespace headcount::results
