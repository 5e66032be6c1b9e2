// What each head is worth alone: the change of the gold continuation's log-likelihood, and of
// accuracy, when it is zeroed and nothing else; and how well every score of a score job told which
// heads those are.
//
// Thread-safe. Errors: FAILED_PRECONDITION (WRONG_KIND) for a job of another kind,
// (RESULTS_NOT_READY) before the first document of the baseline is stored, (SHAPE_DIFFERS) for a
// score job of a model with other layers or heads; those of rule_outcomes.h and score_reader.h.

#pragma once

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

absl::StatusOr<v1::Knockout> GetKnockout(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                         const v1::GetKnockoutRequest& request);

}  // namespace headcount::results
