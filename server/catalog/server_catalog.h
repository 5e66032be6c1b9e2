// The models and tasks of this server, as the planner sees them. Thread-safe; errors of its parts.

#pragma once

#include <string>
#include <vector>

#include "common/config/config.h"
#include "server/catalog/model_catalog.h"
#include "server/catalog/task_catalog.h"
#include "server/plan/job_catalog.h"

namespace headcount::server {

class ServerCatalog final : public plan::JobCatalog {
 public:
  // `shipped_tasks` is the folder of the task files that come with the program.
  ServerCatalog(const Config& config, const std::string& shipped_tasks, RowCounter count_parquet);

  ModelCatalog& models() { return models_; }
  TaskCatalog& tasks() { return tasks_; }

  absl::StatusOr<plan::ModelFacts> FindModel(const std::string& name) const override;
  absl::StatusOr<plan::TaskFacts> FindTask(const std::string& name,
                                           const std::string& split) const override;
  absl::StatusOr<std::string> DataDigest(const v1::TaskSource& source) const override;

 private:
  // Their caches change under const calls; both are thread-safe.
  mutable ModelCatalog models_;
  mutable TaskCatalog tasks_;
};

}  // namespace headcount::server
