// See controls.h.

#include "server/plan/controls.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::plan {
namespace {

absl::Status CheckShape(const results::RuleMasks& masks, const catalog::ModelConfig& model) {
  if (masks.layers == model.layers && masks.heads == model.heads) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("the masks are of ", masks.layers, " x ", masks.heads,
                                     " heads, the model has ", model.layers, " x ", model.heads)),
                    "MODEL_CHANGED");
}

// First sample of each document, and one past the last of all.
std::vector<int> DocumentStarts(const v1::Manifest& manifest) {
  std::vector<int> starts;
  for (int i = 0; i < manifest.samples_size(); ++i) {
    if (i == 0 || manifest.samples(i).document() != manifest.samples(i - 1).document()) {
      starts.push_back(i);
    }
  }
  starts.push_back(manifest.samples_size());
  return starts;
}

}  // namespace

absl::Status SelectStaticHeads(const results::RuleMasks& masks, const catalog::ModelConfig& model,
                               v1::ResolvedRule* rule) {
  HC_RETURN_IF_ERROR(CheckShape(masks, model));
  std::vector<int> order(masks.changed.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return masks.changed[static_cast<size_t>(a)] > masks.changed[static_cast<size_t>(b)];
  });
  const auto count =
      static_cast<size_t>(std::lround(masks.share * static_cast<double>(masks.changed.size())));
  order.resize(count);
  std::sort(order.begin(), order.end());
  if (order.empty()) {
    rule->set_none(true);
    return absl::OkStatus();
  }
  v1::FixedHeads& heads = *rule->mutable_fixed_heads();
  for (int head : order) {
    v1::Head* added = heads.add_heads();
    added->set_layer(head / model.heads);
    added->set_head(head % model.heads);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::SampleMasks> ShuffledMasksOf(const results::RuleMasks& masks, uint64_t seed,
                                                const v1::Manifest& manifest,
                                                const std::string& manifest_digest,
                                                const catalog::ModelConfig& model) {
  HC_RETURN_IF_ERROR(CheckShape(masks, model));
  if (masks.manifest_digest != manifest_digest) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("the masks are of other samples: manifest ",
                                       masks.manifest_digest, ", this job's is ", manifest_digest)),
                      "OTHER_SAMPLES");
  }
  const std::vector<int> starts = DocumentStarts(manifest);
  const size_t documents = starts.size() - 1;
  if (documents < 2) {
    return WithReason(
        absl::FailedPreconditionError("there is one document alone, and so no other one's mask"),
        "TOO_FEW_DOCUMENTS");
  }
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t d = 0; d < documents; ++d) {
    order.emplace_back(RandomKey(seed, manifest.samples(starts[d]).id()), d);
  }
  std::sort(order.begin(), order.end());
  std::vector<const std::string*> mask_of(static_cast<size_t>(manifest.samples_size()));
  for (size_t place = 0; place < documents; ++place) {
    const size_t to = order[place].second, from = order[(place + 1) % documents].second;
    const int given = starts[from + 1] - starts[from];
    for (int i = starts[to]; i < starts[to + 1]; ++i) {
      const int donor = starts[from] + (i - starts[to]) % given;
      mask_of[static_cast<size_t>(i)] = &masks.masks[static_cast<size_t>(donor)];
    }
  }
  v1::SampleMasks out;
  for (const std::string* mask : mask_of) out.mutable_masks()->append(*mask);
  return out;
}

absl::StatusOr<v1::HeadMeans> MeansFor(const std::string& job, const PlanInput& input) {
  absl::StatusOr<v1::HeadMeans> means = input.results.means(job);
  if (!means.ok()) return Annotate(means.status(), "means of " + job);
  const size_t expected = sizeof(float) * static_cast<size_t>(input.model.layers) *
                          static_cast<size_t>(input.model.heads) *
                          static_cast<size_t>(input.model.head_dim);
  if (means->rest().size() != expected || means->first().size() != expected) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat("means of ", job, " have ", means->rest().size(),
                                                   " bytes, the model's heads need ", expected)),
        "MODEL_CHANGED");
  }
  if (means->ByteSizeLong() > kMaxMeanBytes) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("means of ", job, " have ", means->ByteSizeLong(),
                                       " bytes, at most ", kMaxMeanBytes, " go with a task")),
                      "MEANS_TOO_LARGE");
  }
  return means;
}

v1::ResolvedRule RuleForSamples(const v1::ResolvedRule& rule, int64_t first, int64_t count,
                                int64_t samples) {
  if (!rule.has_sample_masks() || samples == 0) return rule;
  v1::ResolvedRule out = rule;
  const std::string& all = rule.sample_masks().masks();
  const auto each = all.size() / static_cast<size_t>(samples);
  out.mutable_sample_masks()->set_first_sample(first);
  out.mutable_sample_masks()->set_masks(
      all.substr(static_cast<size_t>(first) * each, static_cast<size_t>(count) * each));
  return out;
}

}  // namespace headcount::plan
