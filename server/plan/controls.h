// What rules take from other jobs: mean head outputs, and masks for the controls `shuffled` (each
// sample gets another document's mask) and `static_heads` (every sample loses the same heads, as
// many as the rule took on average).
// docs/decisions/0006-controls.md says why they name a finished job. Pure functions. Errors:
// FAILED_PRECONDITION naming what does not fit, with both numbers.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/plan/planners.h"
#include "server/results/rule_masks.h"

namespace headcount::plan {

// Masks of a plan, all rules together.
inline constexpr int64_t kMaxMaskBytes = 64 << 20;

// `rule` selects the heads that the masks' rule changed most often, of equals the lower layer and
// head, so many that their share is that rule's (rounded to whole heads); nothing where that is
// none.
absl::Status SelectStaticHeads(const results::RuleMasks& masks, const catalog::ModelConfig& model,
                               v1::ResolvedRule* rule);

// Documents in an order drawn with the seed, each gets the masks of the one after it: its i-th
// sample those of the other's sample i, counted round. `manifest` is the new job's and must hold
// the same samples.
absl::StatusOr<v1::SampleMasks> ShuffledMasksOf(const results::RuleMasks& masks, uint64_t seed,
                                                const v1::Manifest& manifest,
                                                const std::string& manifest_digest,
                                                const catalog::ModelConfig& model);

// So many bytes of means travel with each task, in one message.
inline constexpr size_t kMaxMeanBytes = 3 << 20;

// The mean head outputs of a score or sweep job of the same model.
absl::StatusOr<v1::HeadMeans> MeansFor(const std::string& job, const PlanInput& input);

// `rule` for samples [first, first + count): sample masks are cut to them, all else is as it was.
v1::ResolvedRule RuleForSamples(const v1::ResolvedRule& rule, int64_t first, int64_t count,
                                int64_t samples);

}  // namespace headcount::plan
