// Log-likelihoods of continuations and of all next tokens, from hidden states at the scored
// positions alone. Called for the rows that have come through the last layer together.
//
// Throws libtorch's exceptions (see tensor/torch_guard.h). One thread at a time.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/engine/engine.h"
#include "worker/engine/model/transformer.h"

namespace headcount::engine {

// Last positions of a row at which something is read; 0 when it has no continuations and its next
// token is not asked for.
inline int ScoredTokens(const Row& row) {
  return row.targets.empty() ? (row.next_token ? 1 : 0) : row.scored;
}

// Fills log_likelihoods, greedy and next_token, and finite where one of these is not. `hidden`
// [scored tokens, hidden] holds the states of the rows' last ScoredTokens, row after row.
void ScoreContinuations(const Transformer& model, const at::Tensor& hidden,
                        std::span<const Row* const> rows, std::span<RowResult* const> results);

}  // namespace headcount::engine
