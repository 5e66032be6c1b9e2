// The few-shot examples of one lm-eval task: which rows of the pool stand before a question, drawn
// as lm-evaluation-harness 0.4.5 draws them. One generator runs on through all questions, so a
// question's examples depend on all draws before it.
//
// Used by worker/eval/render for the questions in their order. Not thread-safe. Errors:
// INVALID_ARGUMENT for a pool with fewer rows than are drawn; those of the templates.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tasks/task_definition.h"
#include "nlohmann/json.hpp"
#include "worker/eval/python_random.h"
#include "worker/eval/row_templates.h"

namespace headcount::eval {

class Examples {
 public:
  // `name` is lm-eval's task name. Task and templates outlive the examples. 0 `shots` draw nothing.
  static absl::StatusOr<Examples> Make(const tasks::TaskDefinition& task,
                                       const RowTemplates& templates, const std::string& name,
                                       std::vector<nlohmann::json> pool, int shots);

  // Rows that are needed of the pool; 0: all.
  static int64_t PoolRows(const tasks::TaskDefinition& task, int shots);

  // The next draw, for the question `row`, which itself is left out. Valid while this object is.
  absl::StatusOr<std::vector<const RowText*>> Draw(const nlohmann::json& row);

 private:
  Examples(const tasks::TaskDefinition& task, const RowTemplates& templates,
           std::vector<nlohmann::json> pool, int shots);

  absl::StatusOr<const RowText*> At(size_t index);

  const RowTemplates* templates_;
  std::vector<nlohmann::json> pool_;
  size_t shots_;
  size_t drawn_;  // rows a draw takes
  tasks::Sampler sampler_;
  PythonRandom random_;
  std::map<size_t, RowText> rendered_;  // rows of the pool that were drawn before
};

}  // namespace headcount::eval
