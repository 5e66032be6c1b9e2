// What a probe found out about one of its prompts, from the one chunk that holds it.
//
// Thread-safe. Errors: FAILED_PRECONDITION (WRONG_KIND) for a job of another kind,
// (RESULTS_NOT_READY) before the prompt has been run; OUT_OF_RANGE for a sample or layer that is
// not there; INVALID_ARGUMENT for an unknown score and for more layers than an answer holds.

#pragma once

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// kv_heads is left 0.
absl::StatusOr<v1::Probe> GetProbe(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                   const v1::GetProbeRequest& request);

}  // namespace headcount::results
