// What a score and a share are worth on documents that had no part in choosing them: the documents
// are cut into folds, on the others of each the best point is chosen, and measured on the fold's
// own. Beside it stands the choice of all documents on all documents, which flatters. GetCurves
// calls it when folds are asked for.
//
// The choice is the point that zeroes most heads while its accuracy is within the margin of the
// baseline, of the scores' curves and not of their controls; none where only the baseline is.
// Document i of each subtask is in fold i mod k. Thresholds are the job's own: no label had a part
// in them.
//
// Thread-safe. Errors: those of rule_outcomes.h; INVALID_ARGUMENT for folds that are not from 2 to
// kMostFolds or more than there are documents.

#pragma once

#include "absl/status/status.h"
#include "headcount/v1/job.pb.h"
#include "headcount/v1/result_service.pb.h"
#include "server/results/curves.h"
#include "server/results/rule_outcomes.h"

namespace headcount::results {

inline constexpr int kMostFolds = 100;

// `documents` of the job.
absl::Status CheckFolds(int folds, int documents);

// `curves` are complete, and their points made.
absl::Status AddCrossFit(OutcomeReader& reader, const v1::Job& job, const Subtasks& subtasks,
                         const RuleOutcomes& baseline, int folds, v1::Curves* curves);

}  // namespace headcount::results
