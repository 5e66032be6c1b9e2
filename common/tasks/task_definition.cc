// Strict parsing of task files. See task_definition.h.

#include "common/tasks/task_definition.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/hf/template.h"
#include "common/tasks/metric_keys.h"
#include "common/tasks/yaml_reader.h"

namespace headcount::tasks {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFewShot = 100;

// In the order of the enumeration.
struct NamedOutputType {
  std::string_view name;
  OutputType type;
};
constexpr NamedOutputType kOutputTypes[] = {
    {"multiple_choice", OutputType::kMultipleChoice},
    {"generate_until", OutputType::kGenerateUntil},
    {"loglikelihood", OutputType::kLoglikelihood},
    {"loglikelihood_rolling", OutputType::kLoglikelihoodRolling}};

constexpr uint64_t kLargestTaskFile = 1 << 20;

const std::vector<std::string> kKeys = {"task",
                                        "output_type",
                                        "test_split",
                                        "validation_split",
                                        "training_split",
                                        "fewshot_split",
                                        "num_fewshot",
                                        "fewshot_config",
                                        "description",
                                        "doc_to_text",
                                        "doc_to_choice",
                                        "doc_to_target",
                                        "target_delimiter",
                                        "metric_list",
                                        "headcount",
                                        "fewshot_delimiter",
                                        "generation_kwargs",
                                        "filter_list"};
// lm-eval's keys that only say where Hugging Face keeps the rows, or describe.
const std::vector<std::string> kWithoutEffect = {
    "dataset_path", "dataset_name", "dataset_kwargs",       "tag",
    "task_alias",   "metadata",     "should_decontaminate", "doc_to_decontamination_query"};
const std::vector<std::string> kNotServed = {"include",         "group",      "process_docs",
                                             "process_results", "repeats",    "use_prompt",
                                             "doc_to_image",    "gen_prefix", "unsafe_code"};
const std::vector<std::string> kHeadcountKeys = {"title",   "data",   "format",
                                                 "columns", "splits", "subtasks"};

bool IsColumnName(const std::string& text) {
  return !text.empty() && text.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyz_"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == std::string::npos;
}

absl::Status ParseFewShot(const YamlReader& reader, const YAML::Node& root, TaskDefinition* task) {
  HC_RETURN_IF_ERROR(reader.String(root, "fewshot_split", &task->fewshot_split));
  std::string test_split;
  HC_RETURN_IF_ERROR(reader.String(root, "test_split", &test_split));
  task->spare_example = task->fewshot_split == test_split;
  if (task->fewshot_split.empty()) {
    std::string training;
    HC_RETURN_IF_ERROR(reader.String(root, "training_split", &training));
    if (task->splits.contains(training)) task->fewshot_split = training;
  }
  std::string sampler = "default";
  if (const YAML::Node config = root["fewshot_config"]; config.IsDefined()) {
    if (!config.IsMap()) return reader.Error("fewshot_config", config, "must be a map");
    const std::vector<std::string> allowed = {"sampler"};
    HC_RETURN_IF_ERROR(reader.Keys(config, "fewshot_config.", allowed));
    HC_RETURN_IF_ERROR(reader.String(config, "sampler", &sampler));
    if (sampler != "default" && sampler != "first_n") {
      return reader.NotServed("fewshot_config.sampler", config["sampler"],
                              "allowed: default, first_n");
    }
  }
  task->sampler = sampler == "first_n" ? Sampler::kFirstN : Sampler::kDefault;
  if (const YAML::Node shots = root["num_fewshot"]; shots.IsDefined()) {
    int value = -1;
    if (!YAML::convert<int>::decode(shots, value) || value < 0 || value > kMostFewShot) {
      return reader.Error("num_fewshot", shots, absl::StrCat("must be 0 to ", kMostFewShot));
    }
    if (value > 0 && task->fewshot_split.empty()) {
      return reader.Error("num_fewshot", shots,
                          "must be 0 without fewshot_split, or training_split in "
                          "headcount.splits");
    }
    task->num_fewshot = value;
  }
  return absl::OkStatus();
}

// That it parses; which columns it needs shows when it meets a row.
absl::Status CheckTemplate(const YamlReader& reader, const std::string& key,
                           const YAML::Node& node) {
  if (!node.IsDefined() || !node.IsScalar()) return absl::OkStatus();
  const absl::Status parsed = hf::TextTemplate::Parse(node.Scalar()).status();
  if (parsed.ok()) return parsed;
  return reader.Error(key, node, std::string(parsed.message()));
}

absl::Status ParseTemplates(const YamlReader& reader, const YAML::Node& root,
                            TaskDefinition* task) {
  HC_RETURN_IF_ERROR(reader.String(root, "description", &task->description));
  HC_RETURN_IF_ERROR(reader.String(root, "doc_to_text", &task->doc_to_text));
  HC_RETURN_IF_ERROR(reader.String(root, "doc_to_target", &task->doc_to_target));
  HC_RETURN_IF_ERROR(reader.String(root, "target_delimiter", &task->target_delimiter));
  HC_RETURN_IF_ERROR(reader.String(root, "fewshot_delimiter", &task->fewshot_delimiter));
  if (task->output_type == OutputType::kLoglikelihoodRolling) {
    // There is nothing before the text, as in the harness.
    if (!task->doc_to_text.empty() || task->num_fewshot > 0) {
      return reader.Error("doc_to_text", root["doc_to_text"],
                          "must be empty, and num_fewshot 0: the text alone is scored");
    }
  } else if (task->doc_to_text.empty()) {
    return reader.Error("doc_to_text", root["doc_to_text"], "is required");
  }
  if (task->doc_to_target.empty()) {
    return reader.Error("doc_to_target", root["doc_to_target"], "is required");
  }
  for (const char* key : {"description", "doc_to_text", "doc_to_target"}) {
    HC_RETURN_IF_ERROR(CheckTemplate(reader, key, root[key]));
  }
  const YAML::Node choices = root["doc_to_choice"];
  if (task->output_type != OutputType::kMultipleChoice) {
    if (!choices.IsDefined()) return absl::OkStatus();
    return reader.NotServed("doc_to_choice", choices, "only multiple_choice has choices");
  }
  if (choices.IsDefined() && choices.IsScalar()) {
    std::string text;
    HC_RETURN_IF_ERROR(reader.String(root, "doc_to_choice", &text));
    if (IsColumnName(text)) text = "{{ " + text + " }}";
    const bool one_expression = text.starts_with("{{") && text.ends_with("}}") &&
                                text.find("{{", 2) == std::string::npos &&
                                text.find("}}") == text.size() - 2;
    if (!one_expression) {
      return reader.Error("doc_to_choice", choices,
                          "must be a list of templates, a column, or one {{ expression }} that "
                          "is a list");
    }
    HC_RETURN_IF_ERROR(CheckTemplate(reader, "doc_to_choice", choices));
    task->doc_to_choice = {text};
    task->doc_to_choice_is_list_template = true;
    return absl::OkStatus();
  }
  for (const YAML::Node& choice : choices) {
    HC_RETURN_IF_ERROR(CheckTemplate(reader, "doc_to_choice", choice));
  }
  HC_RETURN_IF_ERROR(reader.Strings(root, "doc_to_choice", &task->doc_to_choice));
  if (task->doc_to_choice.size() < 2 || task->doc_to_choice.size() > 32) {
    return reader.Error("doc_to_choice", choices, "must be 2 to 32 choices");
  }
  return absl::OkStatus();
}

// A path below the data folder, with {subtask} in the file's name exactly where there are subtasks.
absl::Status CheckPattern(const YamlReader& reader, const std::string& key, const YAML::Node& node,
                          bool has_subtasks) {
  const std::string pattern = node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
  const fs::path path(pattern);
  if (pattern.empty() || path.is_absolute() ||
      std::any_of(path.begin(), path.end(), [](const fs::path& p) { return p == ".."; })) {
    return reader.Error(key, node, "must be a path below the data folder");
  }
  const size_t at = pattern.find("{subtask}");
  if (!has_subtasks && at != std::string::npos) {
    return reader.Error(key, node, "names {subtask}, but there is no headcount.subtasks");
  }
  if (has_subtasks &&
      (at == std::string::npos || pattern.find("{subtask}", at + 1) != std::string::npos ||
       path.filename().string().find("{subtask}") == std::string::npos)) {
    return reader.Error(key, node, "must name {subtask} once, in the file's name");
  }
  return absl::OkStatus();
}

absl::Status ParseSubtasks(const YamlReader& reader, const YAML::Node& node, TaskDefinition* task) {
  const std::string key = "headcount.subtasks";
  if (node.IsMap()) {
    const std::vector<std::string> allowed = {"pattern"};
    HC_RETURN_IF_ERROR(reader.Keys(node, key + ".", allowed));
    HC_RETURN_IF_ERROR(CheckPattern(reader, key + ".pattern", node["pattern"], true));
    task->discover_subtasks = true;
    task->subtask_pattern = node["pattern"].Scalar();
    return absl::OkStatus();
  }
  if (!node.IsSequence() || node.size() == 0) {
    return reader.Error(key, node, "must be a list, or {pattern: ...}");
  }
  for (const YAML::Node& item : node) {
    if (!item.IsScalar() || !CheckResourceId(key, item.Scalar()).ok()) {
      return reader.Error(key, item, "must be a name (letters, digits, . _ -)");
    }
    if (Contains(task->subtasks, item.Scalar())) return reader.Error(key, item, "is given twice");
    task->subtasks.push_back(item.Scalar());
  }
  return absl::OkStatus();
}

absl::Status ParseSplits(const YamlReader& reader, const YAML::Node& node, TaskDefinition* task) {
  if (!node.IsDefined() || !node.IsMap() || node.size() == 0) {
    return reader.Error("headcount.splits", node, "must map each split to a file pattern");
  }
  const bool has_subtasks = task->discover_subtasks || !task->subtasks.empty();
  for (const auto& entry : node) {
    const std::string split = entry.first.Scalar();
    HC_RETURN_IF_ERROR(
        CheckPattern(reader, "headcount.splits." + split, entry.second, has_subtasks));
    task->splits[split] = entry.second.Scalar();
  }
  return absl::OkStatus();
}

absl::Status ParseData(const YamlReader& reader, const YAML::Node& node, TaskDefinition* task) {
  if (!node.IsDefined() || !node.IsMap()) {
    return reader.Error("headcount", node, "must be a map that says where the rows lie");
  }
  HC_RETURN_IF_ERROR(reader.Keys(node, "headcount.", kHeadcountKeys));
  task->title = task->task;
  std::string format = "jsonl";
  HC_RETURN_IF_ERROR(reader.String(node, "title", &task->title));
  HC_RETURN_IF_ERROR(reader.String(node, "data", &task->data));
  HC_RETURN_IF_ERROR(reader.String(node, "format", &format));
  HC_RETURN_IF_ERROR(reader.Strings(node, "columns", &task->columns));
  if (task->data.empty()) return reader.Error("headcount.data", node["data"], "is required");
  if (!CheckResourceId("headcount.data", task->data).ok()) {
    return reader.Error("headcount.data", node["data"],
                        "must be a name (letters, digits, . _ -): a key of the configuration's "
                        "`data`");
  }
  const std::map<std::string, FileFormat> formats = {{"csv", FileFormat::kCsv},
                                                     {"jsonl", FileFormat::kJsonl},
                                                     {"parquet", FileFormat::kParquet},
                                                     {"text", FileFormat::kText}};
  const auto known = formats.find(format);
  if (known == formats.end()) {
    return reader.Error("headcount.format", node["format"], "must be csv, jsonl, parquet or text");
  }
  task->format = known->second;
  if ((task->format == FileFormat::kCsv) == task->columns.empty()) {
    return reader.Error("headcount.columns", node["columns"],
                        "must name the columns of csv files, and of those only");
  }
  if (const YAML::Node subtasks = node["subtasks"]; subtasks.IsDefined()) {
    HC_RETURN_IF_ERROR(ParseSubtasks(reader, subtasks, task));
  }
  return ParseSplits(reader, node["splits"], task);
}

absl::StatusOr<TaskDefinition> Parse(const std::string& yaml, const std::string& file) {
  const YamlReader reader(file);
  const YAML::Node root = YAML::Load(yaml);
  if (!root.IsMap()) return reader.Error("task", root, "a task file must be a map of keys");
  for (const std::string& key : kNotServed) {
    if (root[key].IsDefined()) return reader.NotServed(key, root[key], "leave the key out");
  }
  std::vector<std::string> known = kKeys;
  known.insert(known.end(), kWithoutEffect.begin(), kWithoutEffect.end());
  HC_RETURN_IF_ERROR(reader.Keys(root, "", known));

  TaskDefinition task;
  task.file = file;
  task.folder = fs::path(file).parent_path().string();
  task.digest = Sha256Hex(yaml);
  HC_RETURN_IF_ERROR(reader.String(root, "task", &task.task));
  if (absl::Status status = CheckResourceId("task", task.task); !status.ok()) {
    return Annotate(status, file);
  }
  std::string output_type = "multiple_choice";
  HC_RETURN_IF_ERROR(reader.String(root, "output_type", &output_type));
  const auto named = std::find_if(std::begin(kOutputTypes), std::end(kOutputTypes),
                                  [&](const auto& type) { return type.name == output_type; });
  if (named == std::end(kOutputTypes)) {
    return reader.NotServed(
        "output_type", root["output_type"],
        "allowed: multiple_choice, generate_until, loglikelihood, loglikelihood_rolling");
  }
  task.output_type = named->type;
  HC_RETURN_IF_ERROR(ParseData(reader, root["headcount"], &task));
  HC_RETURN_IF_ERROR(reader.String(root, "validation_split", &task.test_split));
  HC_RETURN_IF_ERROR(reader.String(root, "test_split", &task.test_split));
  HC_RETURN_IF_ERROR(ParseFewShot(reader, root, &task));
  if (!task.splits.contains(task.test_split)) {
    return reader.Error("test_split", root["test_split"],
                        "must be one of headcount.splits, as is validation_split without it");
  }
  if (!task.fewshot_split.empty() && !task.splits.contains(task.fewshot_split)) {
    return reader.Error("fewshot_split", root["fewshot_split"], "must be one of headcount.splits");
  }
  HC_RETURN_IF_ERROR(ParseTemplates(reader, root, &task));
  if (task.output_type == OutputType::kGenerateUntil) {
    HC_RETURN_IF_ERROR(ParseGeneration(reader, root, &task));
    return task;
  }
  HC_RETURN_IF_ERROR(ParseLikelihoodMetrics(reader, root, &task));
  return task;
}

}  // namespace

std::string_view OutputTypeName(OutputType type) {
  return kOutputTypes[static_cast<size_t>(type)].name;
}

bool ReadsItsAnswer(OutputType type) {
  return type == OutputType::kLoglikelihood || type == OutputType::kLoglikelihoodRolling;
}

absl::StatusOr<TaskDefinition> ParseTaskDefinition(const std::string& yaml,
                                                   const std::string& file) {
  try {
    return Parse(yaml, file);
  } catch (const YAML::Exception& e) {
    return WithReason(absl::InvalidArgumentError(absl::StrCat(file, ": ", e.what())),
                      "BAD_TASK_FILE");
  }
}

absl::StatusOr<TaskDefinition> WithSplit(TaskDefinition task, const std::string& split) {
  if (split.empty() || split == task.test_split) return task;
  if (!task.splits.contains(split)) {
    std::vector<std::string> names;
    for (const auto& [name, pattern] : task.splits) names.push_back(name);
    return WithField(WithReason(absl::InvalidArgumentError(absl::StrCat(
                                    "must be a split of task ", task.task, ": ",
                                    absl::StrJoin(names, ", "), " (got \"", split, "\")")),
                                "INVALID_FIELD"),
                     "split");
  }
  task.test_split = split;
  task.spare_example = task.fewshot_split == split;
  return task;
}

TaskSet LoadTaskDefinitions(const std::vector<std::string>& folders) {
  TaskSet set;
  for (const std::string& folder : folders) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".yaml") files.push_back(it->path().string());
    }
    if (error) {
      set.problems[folder] =
          absl::NotFoundError(absl::StrCat("task folder ", folder, ": ", error.message()));
      continue;
    }
    std::sort(files.begin(), files.end());
    std::map<std::string, std::string> seen;  // within this folder
    for (const std::string& file : files) {
      auto text = ReadFile(file, kLargestTaskFile);
      auto task = text.ok() ? ParseTaskDefinition(*text, file)
                            : absl::StatusOr<TaskDefinition>(text.status());
      if (task.ok()) {
        if (auto [first, added] = seen.try_emplace(task->task, file); !added) {
          task = WithReason(
              absl::InvalidArgumentError(absl::StrCat(file, ": task: \"", task->task,
                                                      "\" is defined by ", first->second, " too")),
              "BAD_TASK_FILE");
        }
      }
      if (task.ok()) {
        const std::string name = task->task;
        set.tasks.insert_or_assign(name, *std::move(task));
      } else {
        set.problems[file] = task.status();
      }
    }
  }
  return set;
}

}  // namespace headcount::tasks
