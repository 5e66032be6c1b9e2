// See next_tokens.h.

#include "worker/agent/next_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/base/status_macros.h"

namespace headcount::agent {
namespace {

// Terms of probability 0 are 0.
double Times(double log_probability, double value) {
  const double p = std::exp(log_probability);
  return p == 0 ? 0 : p * value;
}

}  // namespace

absl::StatusOr<v1::NextTokens> SummariseNextTokens(std::span<const float> distribution,
                                                   std::span<const float> baseline, int count,
                                                   const Decoder& decode) {
  v1::NextTokens out;
  double entropy = 0, divergence = 0;
  for (size_t i = 0; i < distribution.size(); ++i) {
    const double here = distribution[i], there = baseline[i];
    entropy -= Times(here, here);
    divergence += Times(there, there - here);
  }
  out.set_entropy(entropy);
  out.set_divergence(divergence);
  if (std::isnan(entropy)) return out;

  std::vector<int32_t> ids(distribution.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto kept = std::min(static_cast<std::ptrdiff_t>(count), std::ssize(ids));
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), [&](int32_t a, int32_t b) {
    const float at_a = distribution[static_cast<size_t>(a)];
    const float at_b = distribution[static_cast<size_t>(b)];
    return at_a != at_b ? at_a > at_b : a < b;
  });
  for (std::ptrdiff_t i = 0; i < kept; ++i) {
    const int32_t id = ids[static_cast<size_t>(i)];
    out.add_tokens(id);
    out.add_log_likelihoods(distribution[static_cast<size_t>(id)]);
    HC_ASSIGN_OR_RETURN(*out.add_texts(), decode({&id, 1}, /*skip_special=*/false));
  }
  return out;
}

}  // namespace headcount::agent
