// See decide.h.

#include "server/results/decide.h"

#include <algorithm>
#include <cmath>

namespace headcount::results {
namespace {

// Index of the first largest of value(0..n-1); -1 for n = 0.
template <typename Value>
int FirstLargest(int n, Value value) {
  int best = -1;
  double best_value = 0;
  for (int i = 0; i < n; ++i) {
    const double x = value(i);
    if (best < 0 || x > best_value) {
      best = i;
      best_value = x;
    }
  }
  return best;
}

}  // namespace

bool ScoresText(const v1::Manifest& manifest) {
  return manifest.output_type() == "loglikelihood" || IsRolling(manifest);
}

bool IsRolling(const v1::Manifest& manifest) {
  return manifest.output_type() == "loglikelihood_rolling";
}

uint32_t CorrectBy(const v1::Manifest& manifest, const Decision& decision) {
  if (manifest.metrics().empty()) return decision.correct ? 1 : 0;
  uint32_t bits = 0;
  for (int m = 0; m < manifest.metrics_size(); ++m) {
    const bool correct =
        manifest.metrics(m) == "acc_norm" ? decision.correct_norm : decision.correct;
    bits |= (correct ? 1u : 0u) << m;
  }
  return bits;
}

Decision DecideLikelihood(double log_likelihood, bool greedy, bool finite) {
  Decision decision;
  decision.finite = finite && std::isfinite(log_likelihood);
  decision.correct = decision.finite && greedy;
  return decision;
}

Decision Decide(const v1::ManifestDocument& document, std::span<const float> log_likelihoods,
                bool finite) {
  Decision decision;
  decision.finite = finite && std::all_of(log_likelihoods.begin(), log_likelihoods.end(),
                                          [](float x) { return std::isfinite(x); });
  const int choices = static_cast<int>(log_likelihoods.size());
  if (!decision.finite || choices == 0) return decision;
  decision.prediction = FirstLargest(choices, [&](int i) { return double{log_likelihoods[i]}; });
  if (document.choice_lengths_size() == choices) {
    // A choice without a code point has no mean; -infinity keeps it from winning.
    decision.prediction_norm = FirstLargest(choices, [&](int i) {
      const int length = document.choice_lengths(i);
      return length > 0 ? log_likelihoods[i] / static_cast<double>(length) : -HUGE_VAL;
    });
  }
  decision.correct = document.gold() >= 0 && decision.prediction == document.gold();
  decision.correct_norm = document.gold() >= 0 && decision.prediction_norm == document.gold();
  return decision;
}

}  // namespace headcount::results
