// The models of the configured folders. Nothing is loaded at start: folders are looked at when
// somebody asks, and read again only when a file changed, so a model that is copied in can be used
// at once. Thread-safe.
//
// Errors: INVALID_ARGUMENT (not a name), NOT_FOUND (MODEL_NOT_FOUND), FAILED_PRECONDITION naming
// what keeps the model from being run.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/config.h"
#include "server/catalog/model_scan.h"

namespace headcount::server {

class ModelCatalog {
 public:
  explicit ModelCatalog(Config config);

  // By name, those that cannot be run included.
  std::vector<v1::Model> List();
  // One that can be run.
  absl::StatusOr<plan::ModelFacts> Find(const std::string& name);

 private:
  struct Entry {
    std::string stamp;
    std::shared_ptr<const ScannedModel> scanned;
  };

  std::shared_ptr<const ScannedModel> Read(const std::string& name, const std::string& folder);

  const Config config_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // folder -> what it held
};

}  // namespace headcount::server
