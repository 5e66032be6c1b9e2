// Log-likelihoods of continuations, from hidden states at the scored positions alone. Called once a
// batch.
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

// The token indices of the batch at which something is scored, row after row; undefined when there
// is none.
at::Tensor ScoredTokens(const Packing& packing, std::span<const Row* const> rows,
                        c10::Device device);

// Fills log_likelihoods and greedy, and finite where a log-likelihood is not. `hidden` [scored
// tokens, hidden] is what Transformer::Forward returned for ScoredTokens.
void ScoreContinuations(const Transformer& model, const at::Tensor& hidden,
                        std::span<const Row* const> rows, std::span<RowResult* const> results);

}  // namespace headcount::engine
