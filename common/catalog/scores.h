// The score table: every score a job may name. CLI help, the catalogue RPC, thresholds and online
// rules are all made from it; adding a score is adding an entry to scores.cc. Immutable after first
// use, safe to share between threads.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/catalog/expression.h"

namespace headcount::catalog {

// The side of a threshold on which a head counts as inactive. Comparisons are strict; NaN is never
// inactive.
enum class Inactive { kBelow, kAbove };

struct Score {
  std::string id;          // first_token_weight_ln
  std::string paper_name;  // as the paper prints it
  std::string alias;       // the authors' code's name for it; accepted wherever an id is
  std::string formula;     // over measurements; empty for `random`
  std::string unit;
  Inactive inactive;
  std::string source;  // citation of the definition
  std::string description;
  Expression expression;  // empty for `random`

  bool is_random() const { return formula.empty(); }
};

// All scores in the paper's order, `random` last.
std::span<const Score> Scores();

// By id or alias. INVALID_ARGUMENT naming the offending value and, when one is close, the nearest
// id.
absl::StatusOr<const Score*> FindScore(std::string_view id_or_alias);

}  // namespace headcount::catalog
