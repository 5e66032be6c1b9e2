// See server_catalog.h.

#include "server/catalog/server_catalog.h"

#include <utility>

namespace headcount::server {
namespace {

std::vector<std::string> TaskFolders(const Config& config, const std::string& shipped) {
  std::vector<std::string> folders = {shipped};
  folders.insert(folders.end(), config.task_dirs.begin(), config.task_dirs.end());
  return folders;
}

}  // namespace

ServerCatalog::ServerCatalog(const Config& config, const std::string& shipped_tasks,
                             RowCounter count_parquet)
    : models_(config),
      tasks_(TaskFolders(config, shipped_tasks), config.data, std::move(count_parquet)) {}

absl::StatusOr<plan::ModelFacts> ServerCatalog::FindModel(const std::string& name) const {
  return models_.Find(name);
}

absl::StatusOr<plan::TaskFacts> ServerCatalog::FindTask(const std::string& name,
                                                        const std::string& split) const {
  return tasks_.Find(name, split);
}

absl::StatusOr<std::string> ServerCatalog::DataDigest(const v1::TaskSource& source) const {
  return tasks_.DataDigest(source);
}

}  // namespace headcount::server
