// What the planner must know of the models and tasks that a job names. server/catalog implements it
// over the configured folders; tests implement it over a table. Names must have passed
// CheckResourceId: nothing else may reach a path.
//
// Thread-safe. Errors: NOT_FOUND (MODEL_NOT_FOUND, TASK_NOT_FOUND), FAILED_PRECONDITION naming what
// keeps a model or task from being run (setting, tensor, data folder that is not configured).

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "common/tasks/task_definition.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::plan {

struct ModelFacts {
  catalog::ModelConfig config;
  bool has_chat_template = false;
  std::string digest;            // of the checkpoint, as ListModels shows it
  std::string tokenizer_digest;  // SHA-256 of tokenizer.json and tokenizer_config.json
};

struct TaskFacts {
  std::shared_ptr<const tasks::TaskDefinition> definition;
  std::vector<std::string> subtasks;  // as found in the data folder, sorted; empty: it has none
  std::string missing_pool;  // a file of the few-shot split that is not there; empty: all are
};

class JobCatalog {
 public:
  virtual ~JobCatalog() = default;

  virtual absl::StatusOr<ModelFacts> FindModel(const std::string& name) const = 0;
  // `split` in the place of the task's own; empty: its own.
  virtual absl::StatusOr<TaskFacts> FindTask(const std::string& name,
                                             const std::string& split) const = 0;
  // Changes with every byte of the data files that the source is read from, evaluated split and
  // few-shot split.
  virtual absl::StatusOr<std::string> DataDigest(const v1::TaskSource& source) const = 0;
};

}  // namespace headcount::plan
