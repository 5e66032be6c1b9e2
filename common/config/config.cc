// See config.h.

#include "common/config/config.h"

#include <pwd.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/config/config_values.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using config_internal::CheckDevice;
using config_internal::CheckListen;
using config_internal::CheckRange;
using config_internal::ReadBool;
using config_internal::ReadInteger;
using config_internal::ReadString;
using config_internal::ReadStrings;

constexpr uint64_t kLargestFile = 1 << 20;

std::string HomeFolder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* entry = getpwuid(getuid());
  return entry != nullptr ? entry->pw_dir : "/";
}

using KeyReader = std::function<absl::Status(const YAML::Node&)>;

// Calls the reader of every key of `map`; a key without one, or one that stands twice, is an error.
absl::Status ReadMap(const std::string& prefix, const YAML::Node& map,
                     const std::map<std::string, KeyReader>& readers) {
  std::set<std::string> seen;
  for (const auto& entry : map) {
    HC_ASSIGN_OR_RETURN(const std::string key, ReadString(prefix + "key", entry.first));
    const std::string path = prefix + key;
    if (!seen.insert(key).second) return InvalidField(path, key, "stands twice", "DUPLICATE_KEY");
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& [name, unused] : readers) absl::StrAppend(&known, " ", name);
      return InvalidField(path, key, "is not a key; there are:" + known, "UNKNOWN_KEY");
    }
    HC_RETURN_IF_ERROR(reader->second(entry.second));
  }
  return absl::OkStatus();
}

KeyReader Text(std::string key, std::string* out) {
  return [=](const YAML::Node& node) -> absl::Status {
    HC_ASSIGN_OR_RETURN(*out, ReadString(key, node));
    return absl::OkStatus();
  };
}

KeyReader Flag(std::string key, bool* out) {
  return [=](const YAML::Node& node) -> absl::Status {
    HC_ASSIGN_OR_RETURN(*out, ReadBool(key, node));
    return absl::OkStatus();
  };
}

// The range is checked here, before the narrowing to T, and by CheckConfig.
template <typename T>
KeyReader Whole(std::string key, T* out) {
  return [=](const YAML::Node& node) -> absl::Status {
    HC_ASSIGN_OR_RETURN(const int64_t value, ReadInteger(key, node));
    HC_RETURN_IF_ERROR(CheckRange(key, value, 0, 1 << 30));
    *out = T(value);
    return absl::OkStatus();
  };
}

KeyReader Folder(std::string key, std::string folder, std::string* out) {
  return [=](const YAML::Node& node) -> absl::Status {
    HC_ASSIGN_OR_RETURN(const std::string value, ReadString(key, node));
    HC_ASSIGN_OR_RETURN(*out, ExpandFolder(key, value, folder));
    return absl::OkStatus();
  };
}

KeyReader Folders(std::string key, std::string folder, std::vector<std::string>* out) {
  return [=](const YAML::Node& node) -> absl::Status {
    HC_ASSIGN_OR_RETURN(const std::vector<std::string> values, ReadStrings(key, node));
    out->clear();
    for (size_t i = 0; i < values.size(); ++i) {
      HC_ASSIGN_OR_RETURN(
          std::string path,
          ExpandFolder(std::string(absl::StrCat(key, "[", i, "]")), values[i], folder));
      out->push_back(std::move(path));
    }
    return absl::OkStatus();
  };
}

absl::Status ReadData(const YAML::Node& node, const std::string& folder,
                      std::map<std::string, std::string>* out) {
  if (!node.IsMap()) return InvalidField("data", "", "must be a map from name to folder");
  for (const auto& entry : node) {
    HC_ASSIGN_OR_RETURN(const std::string name, ReadString("data", entry.first));
    const std::string key = "data." + name;
    HC_ASSIGN_OR_RETURN(const std::string value, ReadString(key, entry.second));
    HC_ASSIGN_OR_RETURN(const std::string path, ExpandFolder(key, value, folder));
    if (!out->emplace(name, path).second) {
      return InvalidField(key, name, "stands twice", "DUPLICATE_KEY");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadWorkers(const YAML::Node& node, Config* config) {
  if (!node.IsSequence()) return InvalidField("workers", "", "must be a list");
  config->workers_set = true;
  for (size_t i = 0; i < node.size(); ++i) {
    const std::string prefix(absl::StrCat("workers[", i, "]"));
    if (!node[i].IsMap()) return InvalidField(prefix, "", "must be a map with the key device");
    LocalWorker worker;
    HC_RETURN_IF_ERROR(ReadMap(prefix + ".", node[i],
                               {{"device", Text(prefix + ".device", &worker.device)},
                                {"threads", Whole(prefix + ".threads", &worker.threads)}}));
    config->workers.push_back(std::move(worker));
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> Parse(const std::string& yaml, const std::string& folder) {
  Config config;
  HC_ASSIGN_OR_RETURN(config.state_dir, ExpandFolder("state_dir", config.state_dir, folder));
  const YAML::Node root = YAML::Load(yaml);
  if (root.IsNull() || !root.IsDefined()) return config;
  if (!root.IsMap()) return InvalidField("file", "", "must be a map of keys");
  HC_RETURN_IF_ERROR(ReadMap(
      "", root,
      {{"state_dir", Folder("state_dir", folder, &config.state_dir)},
       {"listen", Text("listen", &config.listen)},
       {"worker_listen", Text("worker_listen", &config.worker_listen)},
       {"metrics_listen", Text("metrics_listen", &config.metrics_listen)},
       {"reflection", Flag("reflection", &config.reflection)},
       {"reflection_everywhere", Flag("reflection_everywhere", &config.reflection_everywhere)},
       {"model_roots", Folders("model_roots", folder, &config.model_roots)},
       {"task_dirs", Folders("task_dirs", folder, &config.task_dirs)},
       {"data",
        [&](const YAML::Node& node) -> absl::Status {
          return ReadData(node, folder, &config.data);
        }},
       {"workers",
        [&](const YAML::Node& node) -> absl::Status { return ReadWorkers(node, &config); }},
       {"worker_program", Folder("worker_program", folder, &config.worker_program)},
       {"samples_per_unit", Whole("samples_per_unit", &config.samples_per_unit)},
       {"rules_per_unit", Whole("rules_per_unit", &config.rules_per_unit)},
       {"prompts_per_unit", Whole("prompts_per_unit", &config.prompts_per_unit)},
       {"lease_seconds", Whole("lease_seconds", &config.lease)},
       {"task_target_seconds", Whole("task_target_seconds", &config.task_target)},
       {"worker_orphan_exit_seconds",
        Whole("worker_orphan_exit_seconds", &config.worker_orphan_exit)},
       {"max_queued_jobs", Whole("max_queued_jobs", &config.max_queued_jobs)},
       {"max_rules", Whole("max_rules", &config.max_rules)},
       {"max_inline_bytes", Whole("max_inline_bytes", &config.max_inline_bytes)},
       {"usage_half_life_hours", Whole("usage_half_life_hours", &config.usage_half_life)},
       {"log_level", Text("log_level", &config.log_level)}}));
  HC_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

}  // namespace

absl::StatusOr<std::string> ExpandFolder(const std::string& key, const std::string& value,
                                         const std::string& folder) {
  if (value.empty()) return InvalidField(key, value, "must not be empty");
  if (value.find('\0') != std::string::npos || value.size() > 4'000) {
    return InvalidField(key, value, "must be a path of at most 4000 bytes");
  }
  std::string out = value;
  if (value[0] == '~') {
    if (value.size() > 1 && value[1] != '/') {
      return InvalidField(key, value, "only ~/ is expanded, not ~user");
    }
    out = HomeFolder() + value.substr(1);
  } else if (value[0] == '$') {
    const size_t end = std::min(value.find('/'), value.size());
    const std::string name = value.substr(1, end - 1);
    const char* found = std::getenv(name.c_str());
    if (found == nullptr || *found == '\0') {
      return InvalidField(key, value, "the environment variable " + name + " is not set");
    }
    out = found + value.substr(end);
  }
  fs::path path(out);
  std::error_code error;
  if (path.is_relative()) path = fs::absolute(folder.empty() ? "." : folder, error) / path;
  path = path.lexically_normal();
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

absl::Status CheckConfig(const Config& config) {
  HC_RETURN_IF_ERROR(CheckListen("listen", config.listen));
  HC_RETURN_IF_ERROR(CheckListen("worker_listen", config.worker_listen));
  if (!config.metrics_listen.empty()) {
    HC_RETURN_IF_ERROR(CheckListen("metrics_listen", config.metrics_listen));
  }
  for (const auto& [name, folder] : config.data) {
    HC_RETURN_IF_ERROR(CheckResourceId("data." + name, name));
  }
  std::set<std::string> devices;
  for (size_t i = 0; i < config.workers.size(); ++i) {
    const LocalWorker& worker = config.workers[i];
    const std::string prefix(absl::StrCat("workers[", i, "]"));
    HC_RETURN_IF_ERROR(CheckDevice(prefix + ".device", worker.device));
    HC_RETURN_IF_ERROR(CheckRange(prefix + ".threads", worker.threads, 0, 1024));
    if (!devices.insert(worker.device).second) {
      return InvalidField(prefix + ".device", worker.device, "is named twice; one worker a device");
    }
  }
  HC_RETURN_IF_ERROR(CheckRange("samples_per_unit", config.samples_per_unit, 1, 256));
  HC_RETURN_IF_ERROR(CheckRange("rules_per_unit", config.rules_per_unit, 1, 64));
  HC_RETURN_IF_ERROR(CheckRange("prompts_per_unit", config.prompts_per_unit, 1, 256));
  HC_RETURN_IF_ERROR(CheckRange("lease_seconds", config.lease.count(), 2, 3600));
  HC_RETURN_IF_ERROR(CheckRange("task_target_seconds", config.task_target.count(), 1, 3600));
  HC_RETURN_IF_ERROR(
      CheckRange("worker_orphan_exit_seconds", config.worker_orphan_exit.count(), 1, 86'400));
  HC_RETURN_IF_ERROR(CheckRange("max_queued_jobs", config.max_queued_jobs, 1, 1'000'000));
  HC_RETURN_IF_ERROR(CheckRange("max_rules", config.max_rules, 1, 6'000));
  // The message limit of both listeners is 4 MiB; the rest of a request needs room too.
  HC_RETURN_IF_ERROR(CheckRange("max_inline_bytes", config.max_inline_bytes, 1, 3 << 20));
  HC_RETURN_IF_ERROR(
      CheckRange("usage_half_life_hours", config.usage_half_life.count(), 1, 24 * 365));
  static const std::set<std::string> kLevels = {"trace", "debug", "info", "warn", "error", "off"};
  if (!kLevels.contains(config.log_level)) {
    return InvalidField("log_level", config.log_level,
                        "must be trace, debug, info, warn, error or off");
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> ParseConfig(const std::string& yaml, const std::string& where,
                                   const std::string& folder) {
  absl::StatusOr<Config> config;
  try {
    config = Parse(yaml, folder);
  } catch (const YAML::Exception& error) {
    config = InvalidField("file", error.what(), "is not YAML");
  }
  if (!config.ok()) return Annotate(config.status(), where);
  return config;
}

absl::StatusOr<Config> LoadConfig(const std::string& path) {
  if (path.empty()) return ParseConfig("", "defaults", "");
  HC_ASSIGN_OR_RETURN(const std::string yaml, ReadFile(path, kLargestFile));
  return ParseConfig(yaml, path, fs::path(path).parent_path().string());
}

std::string ConfigToYaml(const Config& config) {
  YAML::Emitter out;
  const auto folders = [&out](const char* key, const std::vector<std::string>& values) {
    out << YAML::Key << key << YAML::Value << YAML::BeginSeq;
    for (const std::string& value : values) out << YAML::DoubleQuoted << value;
    out << YAML::EndSeq;
  };
  const auto text = [&out](const char* key, const std::string& value) {
    out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
  };
  const auto number = [&out](const char* key, int64_t value) {
    out << YAML::Key << key << YAML::Value << value;
  };
  out << YAML::BeginMap;
  text("state_dir", config.state_dir);
  text("listen", config.listen);
  text("worker_listen", config.worker_listen);
  text("metrics_listen", config.metrics_listen);
  out << YAML::Key << "reflection" << YAML::Value << config.reflection;
  out << YAML::Key << "reflection_everywhere" << YAML::Value << config.reflection_everywhere;
  folders("model_roots", config.model_roots);
  folders("task_dirs", config.task_dirs);
  out << YAML::Key << "data" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, folder] : config.data) text(name.c_str(), folder);
  out << YAML::EndMap;
  if (config.workers_set) {
    out << YAML::Key << "workers" << YAML::Value << YAML::BeginSeq;
    for (const LocalWorker& worker : config.workers) {
      out << YAML::BeginMap;
      text("device", worker.device);
      number("threads", worker.threads);
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  if (!config.worker_program.empty()) text("worker_program", config.worker_program);
  number("samples_per_unit", config.samples_per_unit);
  number("rules_per_unit", config.rules_per_unit);
  number("prompts_per_unit", config.prompts_per_unit);
  number("lease_seconds", config.lease.count());
  number("task_target_seconds", config.task_target.count());
  number("worker_orphan_exit_seconds", config.worker_orphan_exit.count());
  number("max_queued_jobs", config.max_queued_jobs);
  number("max_rules", config.max_rules);
  number("max_inline_bytes", config.max_inline_bytes);
  number("usage_half_life_hours", config.usage_half_life.count());
  text("log_level", config.log_level);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace headcount
