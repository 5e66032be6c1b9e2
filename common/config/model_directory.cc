// From a model's name to its folder: the only place where a name that a client sent becomes a path.
// See config.h.

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

bool Within(const fs::path& path, const fs::path& root) {
  auto at = path.begin();
  for (const fs::path& part : root) {
    if (at == path.end() || *at != part) return false;
    ++at;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> FindModelDirectory(const Config& config, const std::string& model) {
  HC_RETURN_IF_ERROR(CheckResourceId("model", model));
  std::error_code error;
  for (const std::string& root : config.model_roots) {
    const fs::path folder = fs::path(root) / model;
    if (!fs::is_directory(folder, error)) continue;
    const fs::path real = fs::canonical(folder, error);
    if (error) continue;
    for (const std::string& allowed : config.model_roots) {
      const fs::path real_root = fs::canonical(allowed, error);
      if (!error && Within(real, real_root)) return folder.string();
    }
    return WithField(WithReason(absl::FailedPreconditionError(absl::StrCat(
                                    "model ", model, ": its folder is a link to ", real.string(),
                                    ", which is outside every model root")),
                                "MODEL_OUTSIDE_ROOT"),
                     "model");
  }
  return WithField(
      WithReason(absl::NotFoundError(absl::StrCat("model: no model is called \"", model,
                                                  "\"; ListModels names those there are")),
                 "MODEL_NOT_FOUND"),
      "model");
}

}  // namespace headcount
