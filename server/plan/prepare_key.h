// The key of a manifest: a digest over everything that its token ids depend on. Two jobs with the
// same key have byte-equal manifests, so the second one skips its prepare stage.
//
// Covered: the canonical source (defaults filled in, subtasks without the task's prefix), the model
// with its tokenizer, vocabulary and context length, the task file, its data files, and the
// formats' versions. Thread-safe as far as the catalogue is. Errors: those of the catalogue.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"
#include "server/plan/job_catalog.h"

namespace headcount::plan {

absl::StatusOr<std::string> PrepareKey(const v1::Workload& workload, const JobCatalog& catalog);

// "abstract_algebra" for task mmlu, written with or without "mmlu_".
std::string_view ShortSubtask(std::string_view task, std::string_view subtask);

}  // namespace headcount::plan
