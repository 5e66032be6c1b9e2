// What a multiple-choice document answers, from the log-likelihoods of its choices, as
// lm-evaluation-harness decides it: the largest log-likelihood wins, for acc_norm the largest
// log-likelihood over the choice's length in code points; the first of equals wins. Everything that
// shows a prediction or counts a right answer comes through here. Pure functions, no errors.

#pragma once

#include <cstdint>
#include <span>

#include "headcount/v1/storage.pb.h"

namespace headcount::results {

struct Decision {
  int prediction = -1;       // index of the choice; -1: nothing to choose, or not finite
  int prediction_norm = -1;  // the same for acc_norm
  bool finite = false;       // every log-likelihood is a finite number
  bool correct = false;      // prediction is the gold choice; false where there is no gold
  bool correct_norm = false;
  // Of a text that was generated: `correct` is by the first metric. The predictions stay -1.
  bool answered = false;
  uint32_t correct_by = 0;  // bit m: right by the manifest's metric m
};

// A document has one choice, a text that is scored (loglikelihood, loglikelihood_rolling).
bool ScoresText(const v1::Manifest& manifest);
// It is cut into windows, and has no right or wrong.
bool IsRolling(const v1::Manifest& manifest);

// The bits of such a task's metrics, and of a choice task's.
uint32_t CorrectBy(const v1::Manifest& manifest, const Decision& decision);

// What a text is worth, whose one continuation has this log-likelihood in nats: it is right where
// the model would write it itself.
Decision DecideLikelihood(double log_likelihood, bool greedy, bool finite);

// `log_likelihoods` has one value a choice, in nats. `finite` says whether every sample of the
// document ran without a NaN or infinity: a document with one that did not is wrong, whatever its
// log-likelihoods.
Decision Decide(const v1::ManifestDocument& document, std::span<const float> log_likelihoods,
                bool finite);

}  // namespace headcount::results
