// Where the rows of a task lie, and which subtasks it has. See task_definition.h.

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/tasks/task_definition.h"

namespace headcount::tasks {

namespace fs = std::filesystem;

std::string ShippedTaskFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/headcount/tasks";
  if (!error && fs::is_directory(installed, error)) return installed.string();
  return HEADCOUNT_SOURCE_TASKS;
}

absl::StatusOr<std::string> DataFolder(const TaskDefinition& task,
                                       const std::map<std::string, std::string>& data) {
  std::error_code error;
  if (const auto configured = data.find(task.data); configured != data.end()) {
    if (fs::is_directory(configured->second, error)) return configured->second;
    return WithReason(absl::NotFoundError(absl::StrCat("task ", task.task, ": data.", task.data,
                                                       " of the configuration: folder ",
                                                       configured->second, " is not there")),
                      "DATA_NOT_FOUND");
  }
  const std::string beside = (fs::path(task.folder) / "data" / task.data).string();
  if (fs::is_directory(beside, error)) return beside;
  return WithReason(
      absl::NotFoundError(absl::StrCat("task ", task.task, ": its rows are the data set \"",
                                       task.data, "\"; set data.", task.data,
                                       " in the configuration to the folder that holds it")),
      "DATA_NOT_CONFIGURED");
}

absl::StatusOr<std::vector<std::string>> ListSubtasks(const TaskDefinition& task,
                                                      const std::string& data_folder) {
  if (!task.discover_subtasks) {
    std::vector<std::string> subtasks = task.subtasks;
    std::sort(subtasks.begin(), subtasks.end());
    return subtasks;
  }
  // The parser made sure that the pattern names {subtask} once, in its last component.
  constexpr std::string_view kSubtask = "{subtask}";
  const fs::path pattern = fs::path(data_folder) / task.subtask_pattern;
  const std::string name = pattern.filename().string();
  const size_t at = name.find(kSubtask);
  const std::string before = name.substr(0, at);
  const std::string after = name.substr(at + kSubtask.size());

  std::vector<std::string> subtasks;
  std::error_code error;
  for (fs::directory_iterator it(pattern.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.size() > before.size() + after.size() && file.starts_with(before) &&
        file.ends_with(after)) {
      subtasks.push_back(file.substr(before.size(), file.size() - before.size() - after.size()));
    }
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("task ", task.task, ": folder ",
                                            pattern.parent_path().string(), ": ", error.message()));
  }
  if (subtasks.empty()) {
    return absl::NotFoundError(
        absl::StrCat("task ", task.task, ": no file matches ", pattern.string()));
  }
  std::sort(subtasks.begin(), subtasks.end());
  return subtasks;
}

}  // namespace headcount::tasks
