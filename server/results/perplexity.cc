// See perplexity.h.

#include "server/results/perplexity.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace headcount::results {

bool IsPerplexity(std::string_view metric) {
  return metric == "perplexity" || metric == "word_perplexity" || metric == "byte_perplexity" ||
         metric == "bits_per_byte";
}

double Perplexity(std::string_view metric, const v1::Manifest& manifest, const RuleOutcomes& rule) {
  double log_likelihood = 0;
  double weight = 0;
  for (size_t d = 0; d < rule.documents.size(); ++d) {
    if (!rule.documents[d] || !std::isfinite(rule.documents[d]->gold_log_likelihood)) continue;
    const v1::ManifestDocument& document = manifest.documents(static_cast<int>(d));
    log_likelihood += rule.documents[d]->gold_log_likelihood;
    weight += metric == "perplexity"        ? 1
              : metric == "word_perplexity" ? static_cast<double>(document.words())
                                            : static_cast<double>(document.bytes());
  }
  if (!IsPerplexity(metric) || weight == 0) return std::numeric_limits<double>::quiet_NaN();
  const double nats = -log_likelihood / weight;
  return metric == "bits_per_byte" ? nats / std::numbers::ln2 : std::exp(nats);
}

}  // namespace headcount::results
