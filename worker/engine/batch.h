// How a unit's rows are put into batches, and what happens when one does not fit. Batches depend on
// the unit and the budget alone, never on free memory or speed. Pure logic without libtorch; not
// thread-safe, needs not be.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/engine.h"

namespace headcount::engine {

// Indices of rows.
using Batch = std::vector<int>;

// Rows sorted by length, those that share a prefix together, cut so that a batch starts with at
// most `max_tokens` distinct tokens. What shares a prefix and is larger is cut into equal parts,
// each with the prefix again; a part may then exceed the budget by half, so that long prefixes pay
// too.
std::vector<Batch> PlanBatches(const Unit& unit, int64_t max_tokens, const Sharing& sharing);

// Runs the batches in order. `run` answers RESOURCE_EXHAUSTED when a batch does not fit: then
// `release` is called (to give memory back) and its halves take its place, down to single rows,
// whose failure is returned. Each halving counts in `backoffs`. Returns CANCELLED when `cancel` is
// set between two batches, and `run`'s other errors as they are.
absl::Status RunBatches(std::vector<Batch> batches, const CancelFlag& cancel,
                        const std::function<absl::Status(const Batch&)>& run,
                        const std::function<void()>& release, int& backoffs);

}  // namespace headcount::engine
