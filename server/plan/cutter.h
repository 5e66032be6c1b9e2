// Cuts a manifest into sample blocks and a stage into units, and tells what a unit covers. The cut
// depends on the manifest and two numbers alone, never on speed, memory or the queue, so a unit
// means the same for ever and repeating it gives the same bytes.
//
// Sample blocks: consecutive whole groups are packed until the next one would make more than
// samples_per_unit; a larger group is cut into blocks of its own, each as many whole documents as
// fit. Unit u is (rule block u / sample_blocks, sample block u % sample_blocks), unless the plan
// lists its units: then it is the u-th of these.
//
// Pure functions. Errors: FAILED_PRECONDITION naming a document with more samples than fit into a
// unit, or a manifest without samples; OUT_OF_RANGE for a unit beyond the stage's end.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"

namespace headcount::plan {

absl::StatusOr<std::vector<v1::SampleBlock>> CutSamples(const v1::Manifest& manifest,
                                                        int samples_per_unit);

// A plan over all samples of the manifest: `rules` are indexed in order; none for a score stage.
absl::StatusOr<v1::StagePlan> CutStage(const v1::Manifest& manifest, int samples_per_unit,
                                       std::vector<v1::ResolvedRule> rules, int rules_per_unit);

// Adds the units of rules [first, end) to those that the plan lists: rules_per_unit of them over
// each sample block.
void ListUnits(int first, int end, v1::StagePlan* plan);

// Samples of the document that has most of them; at least 1.
int LargestDocument(const v1::Manifest& manifest);

// The plan of a prepare stage: one unit that covers no samples yet.
v1::StagePlan PreparePlan();

int64_t UnitCount(const v1::StagePlan& plan);
// Rows = (rule, sample) pairs; a score stage's samples count once; 0 for prepare.
int64_t RowCount(const v1::StagePlan& plan);

// What unit `unit` covers. For prepare: nothing.
absl::StatusOr<v1::UnitRange> RangeOfUnit(const v1::StagePlan& plan, int64_t unit);

}  // namespace headcount::plan
