// See model_catalog.h.

#include "server/catalog/model_catalog.h"

#include <set>

#include "common/base/status_macros.h"
#include "server/catalog/file_stamp.h"

namespace headcount::server {

ModelCatalog::ModelCatalog(Config config) : config_(std::move(config)) {}

std::shared_ptr<const ScannedModel> ModelCatalog::Read(const std::string& name,
                                                       const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& file : ListFiles(folder)) paths.push_back(folder + "/" + file);
  const std::string stamp = FileStamps(paths);
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[folder];
  if (entry.scanned == nullptr || entry.stamp != stamp) {
    entry.scanned = std::make_shared<ScannedModel>(ScanModel(name, folder, config_.model_roots));
    entry.stamp = stamp;
  }
  return entry.scanned;
}

std::vector<v1::Model> ModelCatalog::List() {
  std::set<std::string> names;
  for (const std::string& root : config_.model_roots) {
    for (const ModelFolder& model : ListModelFolders(root)) {
      if (LooksLikeModel(ListFiles(model.folder))) names.insert(model.name);
    }
  }
  std::vector<v1::Model> out;
  for (const std::string& name : names) {
    const auto folder = FindModelDirectory(config_, name);
    if (folder.ok()) {
      out.push_back(Read(name, *folder)->model);
    } else {
      v1::Model model;
      model.set_name(name);
      model.set_problem(std::string(folder.status().message()));
      out.push_back(std::move(model));
    }
  }
  return out;
}

absl::StatusOr<plan::ModelFacts> ModelCatalog::Find(const std::string& name) {
  HC_ASSIGN_OR_RETURN(const std::string folder, FindModelDirectory(config_, name));
  const std::shared_ptr<const ScannedModel> scanned = Read(name, folder);
  HC_RETURN_IF_ERROR(scanned->status);
  return scanned->facts;
}

}  // namespace headcount::server
