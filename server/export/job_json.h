// job.json: what was run, in a form that people and scripts read: the job with its provenance, how
// its stages were cut, its rules with their resolved thresholds, and the versions that made it.
// Called by artifacts.cc. Errors: RESOURCE_EXHAUSTED for a full disk, INTERNAL otherwise.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/results/job_results.h"

namespace headcount::exports {

// Field names are those of the contract; int64 are strings, as proto3 JSON has them; numbers that
// are not finite are the strings NaN, Infinity and -Infinity.
absl::Status WriteJobJson(const results::JobResults& results, const std::string& path);

}  // namespace headcount::exports
