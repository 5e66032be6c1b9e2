// What a rule of a finished job did to each sample, and mean outputs of a job's heads: what the
// rules of later jobs can be made of. Called by planners through plan::ResultSources. Thread-safe
// as far as the stores are. Errors: those of job_results.h; INVALID_ARGUMENT for a rule that the
// job does not have; FAILED_PRECONDITION (RESULTS_NOT_READY) while the job runs, (NO_HEAD_SUMS)
// where none were stored; DATA_LOSS where chunks contradict each other.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/results/job_results.h"

namespace headcount::results {

struct RuleMasks {
  std::string manifest_digest;  // of the samples
  std::string label;            // of the rule
  double nominal_fraction = 0;  // likewise; NaN where it names none
  int layers = 0;
  int heads = 0;
  double share = 0;                // of heads changed: mean over documents of the mean over samples
  std::vector<int64_t> changed;    // [layer][head]: samples in which it was
  std::vector<std::string> masks;  // by sample of the manifest, as SampleResult::mask
};

// `rule` as clients see it, from 0.
absl::StatusOr<RuleMasks> ReadRuleMasks(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                        const std::string& job, int rule);

// Of a finished score or sweep job, over all its finite samples.
absl::StatusOr<v1::HeadMeans> ReadHeadMeans(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                            const std::string& job);

}  // namespace headcount::results
