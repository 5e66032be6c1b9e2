// See resource_names.h.

#include "server/api/resource_names.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"

namespace headcount::server {
namespace {

constexpr size_t kLongestName = 300;

absl::Status CheckProject(const std::string& field, const std::string& value,
                          const std::string& project) {
  if (project == kDefaultProject) return absl::OkStatus();
  return WithField(WithReason(absl::NotFoundError(absl::StrCat(field, ": there is no project \"",
                                                               project, "\"; there is default")),
                              "PROJECT_NOT_FOUND"),
                   field);
}

}  // namespace

absl::StatusOr<std::string> ParseParent(const std::string& field, const std::string& parent) {
  if (parent.empty()) return kDefaultProject;
  const std::vector<std::string> parts = absl::StrSplit(parent.substr(0, kLongestName), '/');
  if (parent.size() > kLongestName || parts.size() != 2 || parts[0] != "projects" ||
      !CheckResourceId(field, parts[1]).ok()) {
    return InvalidField(field, parent, "must be projects/{project}", "INVALID_NAME");
  }
  HC_RETURN_IF_ERROR(CheckProject(field, parent, parts[1]));
  return parts[1];
}

std::string JobName(const std::string& project, const std::string& id) {
  return absl::StrCat("projects/", project, "/jobs/", id);
}

absl::Status CheckJobName(const std::string& field, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name.substr(0, kLongestName), '/');
  if (name.size() > kLongestName || parts.size() != 4 || parts[0] != "projects" ||
      parts[2] != "jobs" || !CheckResourceId(field, parts[1]).ok() ||
      !CheckResourceId(field, parts[3]).ok()) {
    return InvalidField(field, name, "must be projects/{project}/jobs/{job}", "INVALID_NAME");
  }
  return CheckProject(field, name, parts[1]);
}

}  // namespace headcount::server
