// Where inactivity lives: for one score and threshold, how often every head is inactive, over all
// samples and per subtask; which heads always, sometimes or never are; and how much of the
// variance of "inactive or not" lies between layers, between the heads of a layer, between the
// subtasks of a head, and between the samples of one subtask.
//
// One pass over the stored scores, two more where the threshold is given as a fraction. Values that
// are not finite, and samples whose run was not, are left out. Thread-safe. Errors: those of
// score_reader.h and thresholds.h; INVALID_ARGUMENT for an unknown score, `random`, and unless
// exactly one of threshold and fraction is given.

#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// A head is always inactive from this share of samples on, never up to one minus it.
inline constexpr double kAlways = .95;

// How often a head was looked at in one subtask, and how often it was inactive.
struct InactiveCount {
  int64_t samples = 0;
  int64_t inactive = 0;
};

// Sums of squares over (sample, layer, head), nested: they add up to the total.
struct VarianceSplit {
  double layer = 0;
  double head = 0;
  double subtask = 0;
  double sample = 0;
  double total() const { return layer + head + subtask + sample; }
};

// `counts` is [subtask][layer][head].
VarianceSplit SplitVariance(std::span<const InactiveCount> counts, int subtasks, int layers,
                            int heads);

absl::StatusOr<v1::Inactivity> GetInactivity(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                             const v1::GetInactivityRequest& request);

}  // namespace headcount::results
