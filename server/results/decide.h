// What a multiple-choice document answers, from the log-likelihoods of its choices, as
// lm-evaluation-harness decides it: the largest log-likelihood wins, for acc_norm the largest
// log-likelihood over the choice's length in code points; the first of equals wins. Everything that
// shows a prediction or counts a right answer comes through here. Pure functions, no errors.

#pragma once

#include <span>

#include "headcount/v1/storage.pb.h"

namespace headcount::results {

struct Decision {
  int prediction = -1;       // index of the choice; -1: nothing to choose, or not finite
  int prediction_norm = -1;  // the same for acc_norm
  bool finite = false;       // every log-likelihood is a finite number
  bool correct = false;      // prediction is the gold choice; false where there is no gold
  bool correct_norm = false;
};

// `log_likelihoods` has one value a choice, in nats. `finite` says whether every sample of the
// document ran without a NaN or infinity: a document with one that did not is wrong, whatever its
// log-likelihoods.
Decision Decide(const v1::ManifestDocument& document, std::span<const float> log_likelihoods,
                bool finite);

}  // namespace headcount::results
