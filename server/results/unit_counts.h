// What a stored unit adds to the curves: documents, right answers and zeroed shares per rule. The
// report sink calls it for every chunk before it is stored, so it is also the check that a chunk
// holds one sane result for each of its rows. Pure functions, thread-safe.
//
// Errors: INVALID_ARGUMENT naming the field, its value and what was expected, for a chunk that does
// not fit its block of the manifest (ranges, counts of results or log-likelihoods, mask bytes);
// INTERNAL where the block splits a document.

#pragma once

#include "absl/status/statusor.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::results {

// The baseline, as rule -1 with nothing zeroed. Samples that score nothing (a score job on prompts
// without choices) give documents that are never correct.
absl::StatusOr<v1::UnitCounts> CountUnit(const v1::Manifest& manifest, const v1::SampleBlock& block,
                                         const v1::ScoreChunk& chunk);

// One entry a rule of the chunk, in order. `baseline_rules` is BaselineRules(plan) of the stage
// (rule_index.h): RuleCounts.rule is the chunk's stage index less that.
absl::StatusOr<v1::UnitCounts> CountUnit(const v1::Manifest& manifest, const v1::SampleBlock& block,
                                         const v1::AblateChunk& chunk, int baseline_rules = 0);

}  // namespace headcount::results
