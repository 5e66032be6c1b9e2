// Document outcomes of an ablate stage, a block of rules at a time, and of the baseline wherever it
// is stored. Curves are made from these; memory is rules per unit x documents, however many rules a
// job has. Incomplete stages give what is stored. Thread-safe as far as the stores are. Errors:
// those of job_results.h; DATA_LOSS where a chunk contradicts its plan.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/results/job_results.h"
#include "server/results/records.h"

namespace headcount::results {

// By document index of the manifest; nothing where it is not stored yet.
struct RuleOutcomes {
  int shown_rule = 0;  // -1: the baseline
  std::vector<std::optional<DocumentOutcome>> documents;
  int64_t stored = 0;
  bool complete = false;
};

class OutcomeReader {
 public:
  // All three must outlive the reader.
  // What counts as correct is the manifest's metric of that index.
  OutcomeReader(store::JobStore& jobs, store::ArtifactStore& artifacts, const JobResults& results,
                const v1::Manifest& manifest, int metric = 0)
      : jobs_(jobs),
        artifacts_(artifacts),
        results_(results),
        manifest_(manifest),
        metric_(metric) {}

  // From the rule `none` in front of an ablate stage, else from the score stage.
  absl::StatusOr<RuleOutcomes> Baseline();

  int64_t rule_blocks() const;
  // The user's rules of one block of the plan, in order; empty where the block holds only the
  // baseline or nothing is stored.
  absl::StatusOr<std::vector<RuleOutcomes>> RuleBlock(int64_t block);

 private:
  absl::StatusOr<std::vector<RuleOutcomes>> ReadBlock(int64_t block);
  // Where the plan lists its units: those of [first_rule, first_rule + rules).
  bool HoldsUnit(int64_t unit, int first_rule, int rules) const;
  RuleOutcomes Empty(int shown_rule) const;

  store::JobStore& jobs_;
  store::ArtifactStore& artifacts_;
  const JobResults& results_;
  const v1::Manifest& manifest_;
  int metric_;
};

}  // namespace headcount::results
