// See task_catalog.h.

#include "server/catalog/task_catalog.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "server/catalog/file_stamp.h"
#include "server/catalog/row_count.h"

namespace headcount::server {
namespace {

// The file of a split, for one subtask ("" where the task has none).
std::string SplitFile(const tasks::TaskDefinition& task, const std::string& folder,
                      const std::string& split, const std::string& subtask) {
  const auto pattern = task.splits.find(split);
  std::string file = pattern == task.splits.end() ? "" : pattern->second;
  constexpr std::string_view kSubtask = "{subtask}";
  if (const size_t at = file.find(kSubtask); at != std::string::npos) {
    file.replace(at, kSubtask.size(), subtask);
  }
  return folder + "/" + file;
}

std::vector<std::string> OrNone(const std::vector<std::string>& subtasks) {
  return subtasks.empty() ? std::vector<std::string>{""} : subtasks;
}

}  // namespace

TaskCatalog::TaskCatalog(std::vector<std::string> folders, std::map<std::string, std::string> data,
                         RowCounter count_parquet)
    : folders_(std::move(folders)),
      data_(std::move(data)),
      count_parquet_(std::move(count_parquet)) {}

std::shared_ptr<const tasks::TaskSet> TaskCatalog::Tasks() {
  std::vector<std::string> paths;
  for (const std::string& folder : folders_) {
    for (const std::string& file : ListFiles(folder)) {
      if (file.ends_with(".yaml")) paths.push_back(folder + "/" + file);
    }
  }
  const std::string stamp = FileStamps(paths);
  std::lock_guard lock(mutex_);
  if (set_ == nullptr || stamp != stamp_) {
    set_ = std::make_shared<tasks::TaskSet>(tasks::LoadTaskDefinitions(folders_));
    stamp_ = stamp;
  }
  return set_;
}

absl::StatusOr<plan::TaskFacts> TaskCatalog::Facts(const tasks::TaskDefinition& task) {
  plan::TaskFacts facts;
  facts.definition = std::make_shared<tasks::TaskDefinition>(task);
  const auto facts_or = [&]() -> absl::Status {
    HC_ASSIGN_OR_RETURN(const std::string folder, tasks::DataFolder(task, data_));
    HC_ASSIGN_OR_RETURN(facts.subtasks, tasks::ListSubtasks(task, folder));
    for (const std::string& subtask : OrNone(facts.subtasks)) {
      const std::string file = SplitFile(task, folder, task.test_split, subtask);
      std::error_code error;
      if (!std::filesystem::is_regular_file(file, error)) {
        return absl::NotFoundError(absl::StrCat("data file ", file, " is not there"));
      }
      if (task.fewshot_split.empty()) continue;
      const std::string pool = SplitFile(task, folder, task.fewshot_split, subtask);
      if (!std::filesystem::is_regular_file(pool, error)) facts.missing_pool = pool;
    }
    return absl::OkStatus();
  }();
  if (facts_or.ok()) return facts;
  // The task is known; that its rows are not there is for the server's operator to change.
  absl::Status status(absl::StatusCode::kFailedPrecondition, facts_or.message());
  return WithField(WithReason(std::move(status), ReasonOf(facts_or).value_or("DATA_NOT_FOUND")),
                   "task");
}

v1::TaskInfo TaskCatalog::Describe(const tasks::TaskDefinition& task) {
  v1::TaskInfo info;
  info.set_task(task.task);
  info.set_description(task.title);
  info.set_output_type(std::string(tasks::OutputTypeName(task.output_type)));
  info.set_num_fewshot(task.num_fewshot);
  for (const std::string& metric : task.metrics) info.add_metrics(metric);
  const auto facts = Facts(task);
  if (!facts.ok()) {
    info.set_problem(std::string(facts.status().message()));
    return info;
  }
  for (const std::string& subtask : facts->subtasks) info.add_subtasks(subtask);
  const auto folder = tasks::DataFolder(task, data_);
  int64_t documents = 0;
  for (const std::string& subtask : OrNone(facts->subtasks)) {
    const std::string file = SplitFile(task, *folder, task.test_split, subtask);
    const std::string stamp = FileStamp(file);
    {
      std::lock_guard lock(mutex_);
      const auto known = rows_.find(file);
      if (known != rows_.end() && known->second.first == stamp) {
        documents += known->second.second;
        continue;
      }
    }
    const auto rows = task.format == tasks::FileFormat::kParquet ? count_parquet_(file)
                                                                 : CountFileRows(file, task.format);
    if (!rows.ok()) {
      info.set_problem(std::string(rows.status().message()));
      return info;
    }
    documents += *rows;
    std::lock_guard lock(mutex_);
    rows_[file] = {stamp, *rows};
  }
  info.set_documents(documents);
  return info;
}

std::vector<v1::TaskInfo> TaskCatalog::List() {
  const std::shared_ptr<const tasks::TaskSet> set = Tasks();
  std::vector<v1::TaskInfo> out;
  for (const auto& [name, task] : set->tasks) out.push_back(Describe(task));
  for (const auto& [file, problem] : set->problems) {
    v1::TaskInfo info;
    info.set_task(std::filesystem::path(file).filename().string());
    info.set_problem(std::string(problem.message()));
    out.push_back(std::move(info));
  }
  return out;
}

absl::StatusOr<plan::TaskFacts> TaskCatalog::Find(const std::string& name,
                                                  const std::string& split) {
  HC_RETURN_IF_ERROR(CheckResourceId("task", name));
  const std::shared_ptr<const tasks::TaskSet> set = Tasks();
  const auto found = set->tasks.find(name);
  if (found == set->tasks.end()) {
    return WithField(
        WithReason(absl::NotFoundError(absl::StrCat("task: no task is called \"", name,
                                                    "\"; ListTasks names those there are")),
                   "TASK_NOT_FOUND"),
        "task");
  }
  HC_ASSIGN_OR_RETURN(const tasks::TaskDefinition task, tasks::WithSplit(found->second, split));
  return Facts(task);
}

absl::StatusOr<std::string> TaskCatalog::DataDigest(const v1::TaskSource& source) {
  const std::string& name = source.task();
  HC_ASSIGN_OR_RETURN(const plan::TaskFacts facts, Find(name, source.split()));
  const tasks::TaskDefinition& task = *facts.definition;
  HC_ASSIGN_OR_RETURN(const std::string folder, tasks::DataFolder(task, data_));
  std::set<std::string> wanted(facts.subtasks.begin(), facts.subtasks.end());
  if (!source.subtasks().empty()) {
    wanted.clear();
    for (const std::string& given : source.subtasks()) {
      const std::string prefix = name + "_";
      const std::string subtask = given.starts_with(prefix) ? given.substr(prefix.size()) : given;
      if (std::find(facts.subtasks.begin(), facts.subtasks.end(), subtask) ==
          facts.subtasks.end()) {
        return InvalidField("subtasks", given, "is no subtask of " + name);
      }
      wanted.insert(subtask);
    }
  }
  if (facts.subtasks.empty()) wanted.insert("");
  std::set<std::string> splits = {task.test_split};
  if (!task.fewshot_split.empty()) splits.insert(task.fewshot_split);
  std::string summary;
  for (const std::string& subtask : wanted) {
    for (const std::string& split : splits) {
      const std::string file = SplitFile(task, folder, split, subtask);
      const std::string stamp = FileStamp(file);
      std::string digest;
      {
        std::lock_guard lock(mutex_);
        const auto known = digests_.find(file);
        if (known != digests_.end() && known->second.first == stamp) digest = known->second.second;
      }
      if (digest.empty()) {
        const auto bytes = ReadFile(file);
        // The few-shot file may be missing where no examples are asked for.
        if (!bytes.ok() && split == task.test_split) return bytes.status();
        digest = bytes.ok() ? Sha256Hex(*bytes) : "missing";
        std::lock_guard lock(mutex_);
        digests_[file] = {stamp, digest};
      }
      absl::StrAppend(&summary, split, " ", subtask, " ", digest, "\n");
    }
  }
  return Sha256Hex(summary);
}

}  // namespace headcount::server
