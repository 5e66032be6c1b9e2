// Files made from a job's stored results, for download: scores.npy, samples.parquet, curves.parquet
// and job.json. The API makes one, then streams it from the offset that the client asks for.
//
// A file is kept under a name made of what it depends on (job, artifact, score, stored units), so a
// download that is taken up again reads the same bytes as long as nothing more was stored; the same
// results give the same bytes always. Files are written aside and renamed when whole. When they
// take more than a limit, those that were used longest ago are removed; a download that has one
// open goes on.
//
//   scores.npy       float32 [sample][layer][query head] of `score`, or of "measurement:<id>"; NaN
//                    for samples that are not stored yet, row i is sample i of the job
//   samples.parquet  a row for each (rule, sample), the baseline as rule -1 first
//   curves.parquet   a row for each point of each curve, the curve's own numbers repeated
//   job.json         the job with its provenance, its stages, rules with thresholds, and versions
//
// Thread-safe. Errors: INVALID_ARGUMENT for an unknown artifact or score; those of
// server/results (NOT_FOUND, RESULTS_NOT_READY, ...); RESOURCE_EXHAUSTED for a full disk.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::exports {

inline constexpr int64_t kKeptBytes = int64_t{4} << 30;

// The path of the whole file, in `folder`, which is made where it is missing. Reads job, artifact
// and score of the request; the offset is the caller's.
absl::StatusOr<std::string> MakeArtifact(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                         const v1::DownloadArtifactRequest& request,
                                         const std::string& folder,
                                         int64_t kept_bytes = kKeptBytes);

}  // namespace headcount::exports
