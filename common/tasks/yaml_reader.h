// One task file as YAML nodes: knows the file's name and turns nodes into values, or into errors
// that say where. Used by the parsers of common/tasks alone. Pure, thread-safe. Errors:
// INVALID_ARGUMENT (BAD_TASK_FILE) naming file, line, key, value and what is allowed; UNIMPLEMENTED
// for what the format knows and headcount does not serve.

#pragma once

#include <yaml-cpp/yaml.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace headcount::tasks {

bool Contains(std::span<const std::string> list, const std::string& value);

class YamlReader {
 public:
  explicit YamlReader(std::string file) : file_(std::move(file)) {}

  absl::Status Error(const std::string& key, const YAML::Node& node,
                     const std::string& message) const;
  absl::Status NotServed(const std::string& key, const YAML::Node& node,
                         const std::string& allowed) const;

  // `out` is left alone where the key is absent.
  absl::Status String(const YAML::Node& map, const char* key, std::string* out) const;
  absl::Status Bool(const YAML::Node& map, const char* key, bool* out) const;
  absl::Status Integer(const YAML::Node& map, const char* key, int least, int most, int* out) const;
  absl::Status Strings(const YAML::Node& map, const char* key, std::vector<std::string>* out) const;
  // Every key of `map` is one of `allowed` and there once.
  absl::Status Keys(const YAML::Node& map, const std::string& prefix,
                    std::span<const std::string> allowed) const;

 private:
  std::string Where(const YAML::Node& node) const;
  absl::Status NoCode(const std::string& key, const YAML::Node& node) const;

  std::string file_;
};

}  // namespace headcount::tasks
