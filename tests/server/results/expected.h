// What a made-up job's rows come to, document by document, computed in the plainest way.

#pragma once

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/server/results/sample_job.h"

namespace headcount::results {

struct Expected {
  std::vector<double> correct, correct_norm, share, gold;
};

// One entry a document.
inline Expected Compute(const SampleJob& job, int stage_rule) {
  const std::vector<v1::SampleResult> rows = job.RowsOf(stage_rule);
  Expected expected;
  for (int d = 0; d < job.manifest.documents_size(); ++d) {
    const v1::ManifestDocument& document = job.manifest.documents(d);
    std::vector<float> lls;
    double share = 0;
    int samples = 0;
    bool finite = true;
    for (int s = 0; s < job.manifest.samples_size(); ++s) {
      if (job.manifest.samples(s).document() != d) continue;
      const v1::SampleResult& row = rows[static_cast<size_t>(s)];
      lls.insert(lls.end(), row.log_likelihoods().begin(), row.log_likelihoods().end());
      for (const char byte : row.mask()) {
        share += std::popcount(static_cast<unsigned char>(byte)) / double{kLayers * kHeads};
      }
      finite = finite && !row.non_finite();
      ++samples;
    }
    size_t best = 0;
    size_t best_norm = 0;
    const auto norm = [&](size_t c) {
      return lls[c] / document.choice_lengths(static_cast<int>(c));
    };
    for (size_t c = 1; c < lls.size(); ++c) {
      if (lls[c] > lls[best]) best = c;
      if (norm(c) > norm(best_norm)) best_norm = c;
    }
    const auto gold = static_cast<size_t>(document.gold());
    expected.correct.push_back(finite && best == gold ? 1 : 0);
    expected.correct_norm.push_back(finite && best_norm == gold ? 1 : 0);
    expected.share.push_back(share / samples);
    expected.gold.push_back(finite ? lls[gold] : std::nan(""));
  }
  return expected;
}

}  // namespace headcount::results
