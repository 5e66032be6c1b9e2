// How single values of the configuration file are read and checked: strict, with key, value and
// limit in every error. Used by config.cc alone. Pure functions.

#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount::config_internal {

absl::StatusOr<std::string> ReadString(const std::string& key, const YAML::Node& node);
// Exactly "true" or "false".
absl::StatusOr<bool> ReadBool(const std::string& key, const YAML::Node& node);
absl::StatusOr<int64_t> ReadInteger(const std::string& key, const YAML::Node& node);
absl::StatusOr<std::vector<std::string>> ReadStrings(const std::string& key,
                                                     const YAML::Node& node);

absl::Status CheckRange(const std::string& key, int64_t value, int64_t least, int64_t most);
// "host:port" or "[v6]:port", port 0 to 65,535.
absl::Status CheckListen(const std::string& key, const std::string& value);
// "cpu" or "cuda:N".
absl::Status CheckDevice(const std::string& key, const std::string& value);

}  // namespace headcount::config_internal
