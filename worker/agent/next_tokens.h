// A next-token distribution summed up for people: its most likely tokens, its entropy, and how far
// it is from another. Called by chunk_builder.cc where a stage records it. Pure functions. Errors:
// the decoder's.

#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "headcount/v1/storage.pb.h"
#include "worker/agent/decoder.h"

namespace headcount::agent {

// `distribution` and `baseline` hold log-probabilities of the same tokens. The `count` most likely
// tokens are named, of equals the lower id first. The divergence is that of `baseline` from
// `distribution`, sum of p_baseline (log p_baseline - log p): what it costs to take the second for
// the first. Sums are in double precision; a NaN makes them NaN, and no token is named then.
absl::StatusOr<v1::NextTokens> SummariseNextTokens(std::span<const float> distribution,
                                                   std::span<const float> baseline, int count,
                                                   const Decoder& decode);

}  // namespace headcount::agent
