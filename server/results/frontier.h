// A frontier job as far as it is stored: its search (frontier_search.h) for every score, fed with
// the paired differences of the units that are in, and what it asks to run next. GetFrontier
// answers with it; the planner cuts the next units from it.
//
// The stage's plan says all: its rules are scores x fractions, its blocks are drawn in the order
// that it holds, its units are what was asked for so far. A unit counts once all units before it of
// the same rule do, so the answer is the same however the work was spread. Thread-safe. Errors:
// FAILED_PRECONDITION (WRONG_KIND) for a job of another kind; those of rule_outcomes.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "headcount/v1/storage.pb.h"
#include "server/results/frontier_search.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

// Margin and alpha with their defaults.
FrontierOptions FrontierOptionsOf(const v1::FrontierSpec& spec);

// The order in which the blocks of a plan are drawn: a permutation of 0..blocks-1 from the seed
// alone.
std::vector<int32_t> DrawOrder(int blocks, uint64_t seed);

// The units to run next, given what is stored of the job's ablate stage; empty: the answer is
// there. `plan` is the stage's plan, or for a stage that does not exist yet the one it is to have.
absl::StatusOr<std::vector<v1::UnitRange>> NextFrontierUnits(store::JobStore& jobs,
                                                             store::ArtifactStore& artifacts,
                                                             const v1::Job& job,
                                                             const v1::StagePlan& plan);

absl::StatusOr<v1::Frontier> GetFrontier(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                         const v1::GetFrontierRequest& request);

}  // namespace headcount::results
