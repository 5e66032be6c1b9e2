// Reads what one model folder says about itself: config.json, safetensors headers, tokenizer files.
// No tensor data is read but 64 small blocks a file, which tell a fine-tuned copy from its
// original. Called by ModelCatalog, which caches. Thread-safe; a folder that cannot be run is not
// an error but a model with a problem.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "headcount/v1/catalog_service.pb.h"
#include "server/plan/job_catalog.h"

namespace headcount::server {

struct ScannedModel {
  v1::Model model;         // `problem` is set where `status` is an error
  absl::Status status;     // OK: it can be run; else why not, with the field "model"
  plan::ModelFacts facts;  // filled as far as the folder could be read
};

// `folder` is where the model lies, `roots` the folders that its files may lie in, links followed.
ScannedModel ScanModel(const std::string& name, const std::string& folder,
                       const std::vector<std::string>& roots);

// Whether a folder with these files is meant to be a model.
bool LooksLikeModel(const std::vector<std::string>& files);

}  // namespace headcount::server
