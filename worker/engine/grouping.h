// Finds what the rows of a unit have in common: equal inputs, and prefixes that several inputs
// share. Called by batch planning and before a batch runs. Pure functions without libtorch; rows
// are valid (validate.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/engine/engine.h"
#include "worker/engine/layout.h"

namespace headcount::engine {

// A shorter common prefix is not worth attention in two parts.
inline constexpr int64_t kMinTrunkTokens = 16;

// Inputs that share their first `trunk` tokens (0: a single input, whole).
struct InputGroup {
  struct Input {
    std::vector<int> rows;  // with these tokens, ascending
    int64_t length = 0;     // prefix included
  };
  int64_t trunk = 0;
  std::vector<Input> inputs;  // by length

  int64_t tokens() const;  // computed while nothing parts: the trunk once, the rest of each input
};

// The groups of `rows` (indices into unit.rows), by the length of their longest input. Of all ways
// to cut the sorted inputs into groups the one that saves most tokens. A trunk never holds a token
// whose output is scored, nor all of an input.
std::vector<InputGroup> GroupRows(const Unit& unit, std::span<const int> rows,
                                  const Sharing& sharing);

// As the batch `rows` is laid out: rows count from 0 in its order.
Layout LayOut(std::span<const InputGroup> groups, std::span<const int> rows);

// The token ids of a layout's trunks, then of its branches; `rows` are the batch's, whose inputs
// begin with `prefix`.
std::vector<int32_t> TokenIds(const Layout& layout, std::span<const Row* const> rows,
                              std::span<const int32_t> prefix);

}  // namespace headcount::engine
