// samples.parquet: everything that is stored about every (rule, sample), enough to compute each
// number of the curves again. Called by artifacts.cc. Errors: those of server/results/samples.h and
// parquet_file.h.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::exports {

// Columns: rule (-1: the baseline), rule_label, nominal_fraction, threshold (both NaN where there
// is none), sample, document, subtask, choice_lengths (of the document, code points),
// log_likelihoods and greedy (of the choices this sample scores, in the document's order),
// prediction, prediction_norm, gold, correct, correct_norm (of the document), share_zeroed (of the
// sample), mask (bit layer * heads + head, least significant first; empty for a score stage's
// baseline), finite, tokens.
absl::Status WriteSamplesParquet(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                 const std::string& job, const std::string& path);

}  // namespace headcount::exports
