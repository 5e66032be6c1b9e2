// From a model's name to its folder, and back: the only place where a name that a client sent
// becomes a path. See config.h.

#include <filesystem>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/errors.h"
#include "common/base/files.h"
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

constexpr char kCached[] = "models--";
constexpr uint64_t kLongestRef = 200;

// The snapshot that a folder of a Hugging Face cache (models--ORG--NAME) stands for: the commit
// that refs/main names, or the only one there is. Nothing where there is none.
std::optional<fs::path> Snapshot(const fs::path& cached) {
  std::error_code error;
  const auto ref = ReadFile((cached / "refs" / "main").string(), kLongestRef);
  if (ref.ok()) {
    const std::string commit(absl::StripAsciiWhitespace(*ref));
    const fs::path folder = cached / "snapshots" / commit;
    if (CheckResourceId("commit", commit).ok() && fs::is_directory(folder, error)) return folder;
    return std::nullopt;
  }
  std::optional<fs::path> only;
  for (const auto& entry : fs::directory_iterator(cached / "snapshots", error)) {
    if (only.has_value()) return std::nullopt;
    only = entry.path();
  }
  return only;
}

// Where a root would hold a model of that name: a folder, or a Hugging Face cache's.
std::optional<fs::path> InRoot(const fs::path& root, const std::string& model) {
  std::error_code error;
  const fs::path folder = root / model;
  if (fs::is_directory(folder, error)) return folder;
  const fs::path cached = root / (kCached + absl::StrReplaceAll(model, {{"/", "--"}}));
  if (!fs::is_directory(cached, error)) return std::nullopt;
  return Snapshot(cached);
}

}  // namespace

std::vector<ModelFolder> ListModelFolders(const std::string& root) {
  std::vector<ModelFolder> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::string name = entry.path().filename().string();
    std::optional<fs::path> folder = entry.path();
    if (name.starts_with(kCached)) {
      name.erase(0, sizeof kCached - 1);
      const size_t seam = name.find("--");
      if (seam != std::string::npos) name.replace(seam, 2, "/");
      folder = Snapshot(entry.path());
    }
    if (folder.has_value() && CheckModelName("model", name).ok()) {
      out.push_back({std::move(name), folder->string()});
    }
  }
  return out;
}

absl::StatusOr<std::string> FindModelDirectory(const Config& config, const std::string& model) {
  HC_RETURN_IF_ERROR(CheckModelName("model", model));
  std::error_code error;
  for (const std::string& root : config.model_roots) {
    const std::optional<fs::path> folder = InRoot(root, model);
    if (!folder.has_value()) continue;
    const fs::path real = fs::canonical(*folder, error);
    if (error) continue;
    for (const std::string& allowed : config.model_roots) {
      const fs::path real_root = fs::canonical(allowed, error);
      if (!error && Within(real, real_root)) return folder->string();
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
