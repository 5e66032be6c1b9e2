// The perplexities of tasks that score texts in the place of answers (lm-evaluation-harness'
// loglikelihood and loglikelihood_rolling). Pure.

#pragma once

#include <string_view>

#include "headcount/v1/storage.pb.h"
#include "server/results/rule_outcomes.h"

namespace headcount::results {

// perplexity, word_perplexity, byte_perplexity, bits_per_byte: lower is better.
bool IsPerplexity(std::string_view metric);

// Over the documents of a rule that are stored and finite, weighted as the harness weighs them:
// exp(-sum of log-likelihoods / sum of documents, words or bytes), or in bits without exp. NaN for
// none, and for another metric.
double Perplexity(std::string_view metric, const v1::Manifest& manifest, const RuleOutcomes& rule);

}  // namespace headcount::results
