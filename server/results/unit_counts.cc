// See unit_counts.h.

#include "server/results/unit_counts.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/measurements.h"
#include "server/results/records.h"
#include "server/results/rule_index.h"

namespace headcount::results {
namespace {

// Layers and heads of a chunk: positive, and small enough that no product below overflows.
absl::Status CheckShape(int layers, int heads) {
  constexpr int kMost = 1 << 14;
  if (layers < 1 || layers > kMost) {
    return InvalidField("layers", absl::StrCat(layers), absl::StrCat("must be 1 to ", kMost));
  }
  if (heads < 1 || heads > kMost) {
    return InvalidField("heads", absl::StrCat(heads), absl::StrCat("must be 1 to ", kMost));
  }
  return absl::OkStatus();
}

template <typename Chunk>
absl::Status CheckRange(const v1::SampleBlock& block, const Chunk& chunk) {
  if (chunk.first_sample() == block.first_sample() && chunk.samples() == block.samples()) {
    return absl::OkStatus();
  }
  return InvalidField(
      "samples",
      absl::StrCat("[", chunk.first_sample(), ", ", chunk.first_sample() + chunk.samples(), ")"),
      absl::StrCat("the unit covers [", block.first_sample(), ", ",
                   block.first_sample() + block.samples(), ")"));
}

absl::Status CheckBytes(const std::string& field, const std::string& bytes, int64_t expected) {
  if (static_cast<int64_t>(bytes.size()) == expected) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(bytes.size(), " bytes"),
                      absl::StrCat(expected, " bytes are expected"));
}

absl::Status CheckResults(int64_t results, int64_t expected) {
  if (results == expected) return absl::OkStatus();
  return InvalidField("results", absl::StrCat(results), absl::StrCat(expected, " are expected"));
}

// Counts one rule's documents; `first` is its first row among `chunk`'s results.
template <typename Chunk>
absl::Status CountRule(const v1::Manifest& manifest, const Chunk& chunk, int first, bool with_mask,
                       v1::RuleCounts* counts) {
  const int64_t heads = int64_t{chunk.layers()} * chunk.heads();
  HC_RETURN_IF_ERROR(CheckBlock(manifest, chunk.first_sample(), chunk.samples()));
  for (int i = 0; i < chunk.samples(); ++i) {
    const v1::ManifestSample& sample = manifest.samples(static_cast<int>(chunk.first_sample()) + i);
    HC_RETURN_IF_ERROR(CheckRow(sample, chunk.results(first + i), heads, with_mask));
    if (with_mask && manifest.has_generation()) {
      HC_RETURN_IF_ERROR(CheckGenerated(manifest.generation(), sample, chunk.results(first + i)));
    }
  }
  int64_t documents = 0;
  int64_t correct = 0;
  double share_sum = 0;
  HC_RETURN_IF_ERROR(ForEachDocument(
      manifest, chunk.first_sample(), chunk.samples(), heads,
      [&](int i) -> const v1::SampleResult& { return chunk.results(first + i); },
      [&](int64_t, const DocumentOutcome& outcome) {
        if (manifest.has_generation() && !outcome.decision.answered) return;
        if (IsRolling(manifest)) return;  // nothing to be right about
        ++documents;
        correct += outcome.decision.correct_by & 1;
        share_sum += outcome.share_zeroed;
      }));
  counts->set_documents(documents);
  counts->set_correct(correct);
  counts->set_share_sum(share_sum);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::UnitCounts> CountUnit(const v1::Manifest& manifest, const v1::SampleBlock& block,
                                         const v1::ScoreChunk& chunk) {
  HC_RETURN_IF_ERROR(CheckRange(block, chunk));
  HC_RETURN_IF_ERROR(CheckShape(chunk.layers(), chunk.heads()));
  HC_RETURN_IF_ERROR(CheckResults(chunk.results_size(), chunk.samples()));
  const int64_t floats = int64_t{chunk.samples()} * chunk.layers() * chunk.heads();
  for (const v1::Slab& slab : chunk.slabs()) {
    if (!catalog::FindMeasurement(slab.measurement())) continue;  // from a newer build
    HC_RETURN_IF_ERROR(CheckBytes(absl::StrCat("slabs.", slab.measurement()), slab.values(),
                                  floats * int64_t{sizeof(float)}));
  }
  v1::UnitCounts counts;
  counts.set_rows(chunk.samples());
  v1::RuleCounts* rule = counts.add_rules();
  rule->set_rule(kBaselineRule);
  HC_RETURN_IF_ERROR(CountRule(manifest, chunk, 0, /*with_mask=*/false, rule));
  return counts;
}

absl::StatusOr<v1::UnitCounts> CountUnit(const v1::Manifest& manifest, const v1::SampleBlock& block,
                                         const v1::AblateChunk& chunk, int baseline_rules) {
  HC_RETURN_IF_ERROR(CheckRange(block, chunk));
  HC_RETURN_IF_ERROR(CheckShape(chunk.layers(), chunk.heads()));
  if (chunk.rules() < 1) {
    return InvalidField("rules", absl::StrCat(chunk.rules()), "must be 1 or more");
  }
  const int64_t rows = int64_t{chunk.rules()} * chunk.samples();
  HC_RETURN_IF_ERROR(CheckResults(chunk.results_size(), rows));
  HC_RETURN_IF_ERROR(CheckBytes(
      "zeroed", chunk.zeroed(),
      int64_t{chunk.rules()} * chunk.layers() * chunk.heads() * int64_t{sizeof(uint32_t)}));
  v1::UnitCounts counts;
  counts.set_rows(rows);
  for (int r = 0; r < chunk.rules(); ++r) {
    v1::RuleCounts* rule = counts.add_rules();
    rule->set_rule(chunk.first_rule() + r - baseline_rules);
    HC_RETURN_IF_ERROR(CountRule(manifest, chunk, r * chunk.samples(), /*with_mask=*/true, rule));
  }
  return counts;
}

}  // namespace headcount::results
