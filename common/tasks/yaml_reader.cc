// See yaml_reader.h.

#include "common/tasks/yaml_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::tasks {

bool Contains(std::span<const std::string> list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

absl::Status YamlReader::Bool(const YAML::Node& map, const char* key, bool* out) const {
  const YAML::Node node = map[key];
  if (!node.IsDefined()) return absl::OkStatus();
  if (!YAML::convert<bool>::decode(node, *out)) return Error(key, node, "must be true or false");
  return absl::OkStatus();
}

absl::Status YamlReader::Integer(const YAML::Node& map, const char* key, int least, int most,
                                 int* out) const {
  const YAML::Node node = map[key];
  if (!node.IsDefined()) return absl::OkStatus();
  int value = 0;
  if (!YAML::convert<int>::decode(node, value) || value < least || value > most) {
    return Error(key, node, absl::StrCat("must be ", least, " to ", most));
  }
  *out = value;
  return absl::OkStatus();
}

absl::Status YamlReader::Error(const std::string& key, const YAML::Node& node,
                               const std::string& message) const {
  std::string value;
  if (node.IsDefined()) value = node.IsScalar() ? node.Scalar() : YAML::Dump(node);
  return InvalidField(absl::StrCat(Where(node), key), value, message, "BAD_TASK_FILE");
}

absl::Status YamlReader::NotServed(const std::string& key, const YAML::Node& node,
                                   const std::string& allowed) const {
  return WithReason(absl::UnimplementedError(absl::StrCat(
                        Where(node), key, ": \"", YAML::Dump(node), "\" is not served; ", allowed)),
                    "BAD_TASK_FILE");
}

absl::Status YamlReader::String(const YAML::Node& map, const char* key, std::string* out) const {
  const YAML::Node node = map[key];
  if (!node.IsDefined()) return absl::OkStatus();
  HC_RETURN_IF_ERROR(NoCode(key, node));
  if (!node.IsScalar()) return Error(key, node, "must be a string");
  *out = node.Scalar();
  return absl::OkStatus();
}

absl::Status YamlReader::Strings(const YAML::Node& map, const char* key,
                                 std::vector<std::string>* out) const {
  const YAML::Node node = map[key];
  if (!node.IsDefined()) return absl::OkStatus();
  if (!node.IsSequence()) return Error(key, node, "must be a list of strings");
  for (const YAML::Node& item : node) {
    HC_RETURN_IF_ERROR(NoCode(key, item));
    if (!item.IsScalar()) return Error(key, item, "must be a list of strings");
    out->push_back(item.Scalar());
  }
  return absl::OkStatus();
}

absl::Status YamlReader::Keys(const YAML::Node& map, const std::string& prefix,
                              std::span<const std::string> allowed) const {
  std::vector<std::string> seen;
  for (const auto& entry : map) {
    const std::string key = entry.first.Scalar();
    if (Contains(seen, key)) return Error(prefix + key, entry.first, "is given twice");
    seen.push_back(key);
    if (Contains(allowed, key)) continue;
    return Error(prefix + key, entry.second,
                 absl::StrCat("unknown key; allowed: ",
                              absl::StrJoin(allowed.begin(), allowed.end(), ", ")));
  }
  return absl::OkStatus();
}

std::string YamlReader::Where(const YAML::Node& node) const {
  if (!node.IsDefined() || node.Mark().line < 0) return file_ + ": ";
  return absl::StrCat(file_, ":", node.Mark().line + 1, ": ");
}

absl::Status YamlReader::NoCode(const std::string& key, const YAML::Node& node) const {
  if (node.Tag().starts_with("!f")) {
    return Error(key, node, "!function is refused: a task file never runs code");
  }
  return absl::OkStatus();
}

}  // namespace headcount::tasks
