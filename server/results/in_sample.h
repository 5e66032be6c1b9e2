// Whether the documents that evaluate a sweep's shares have chosen its thresholds: by default they
// have, and still where calibrate_on names a job that ran some of the same inputs. GetCurves asks.
// Thread-safe as far as the stores are; what cannot be read any more counts as another job's.

#pragma once

#include "headcount/v1/job.pb.h"
#include "headcount/v1/storage.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// `manifest` is the job's.
bool InSample(store::JobStore& jobs, store::ArtifactStore& artifacts, const v1::Job& job,
              const v1::Manifest& manifest);

}  // namespace headcount::results
