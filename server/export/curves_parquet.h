// curves.parquet: GetCurves as a table. Called by artifacts.cc. Errors: those of
// server/results/curves.h and parquet_file.h.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::exports {

// A row for each point of each curve, the baseline (rule -1) among the points of each; a job
// without curves has the one row of a curve "baseline". Columns: curve and metric, the fields of
// CurvePoint by their names, then those of Curve and Curves that hold for all of a curve's points.
absl::Status WriteCurvesParquet(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                const std::string& job, const std::string& path);

}  // namespace headcount::exports
