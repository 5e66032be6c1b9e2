// The prompts of a task of the catalogue, tokenised as a job would have them: what all sides of the
// benchmarks run. Used by engine_bench, one thread.
//
// Errors: those of worker/eval/prepare; INVALID_ARGUMENT for a command that cannot be read.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headcount::bench {

// {"case": "prompts", "task": name, "subtask": name, "documents": n, "fewshot": n, "data": folder,
//  "task_folder": folder} -> {"prompts": [[token, ...], ...], "targets": [token, ...]}.
// One prompt a sample of the task; the targets are those of the first.
absl::StatusOr<nlohmann::json> TaskPrompts(const std::string& model_folder,
                                           const nlohmann::json& command);

// {"case": "encode", "text": text} -> {"tokens": [token, ...]}.
absl::StatusOr<nlohmann::json> Encode(const std::string& model_folder,
                                      const nlohmann::json& command);

}  // namespace headcount::bench
