// The tasks of the shipped and the configured folders, and where their rows lie. Files are looked
// at when somebody asks and read again only when they changed. Thread-safe.
//
// Errors: INVALID_ARGUMENT (not a name), NOT_FOUND (TASK_NOT_FOUND), FAILED_PRECONDITION naming the
// data folder to configure or the file that is missing.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tasks/task_definition.h"
#include "headcount/v1/catalog_service.pb.h"
#include "server/plan/job_catalog.h"

namespace headcount::server {

using RowCounter = std::function<absl::StatusOr<int64_t>(const std::string& path)>;

class TaskCatalog {
 public:
  // `folders` in order, a later one wins; `data` maps a data-set name to its folder.
  // `count_parquet` counts the rows of a Parquet file; it is not called without one.
  TaskCatalog(std::vector<std::string> folders, std::map<std::string, std::string> data,
              RowCounter count_parquet);

  // By name, those that cannot be run and files that do not parse included.
  std::vector<v1::TaskInfo> List();
  // One that can be run, over `split` in the place of its own unless that is empty.
  absl::StatusOr<plan::TaskFacts> Find(const std::string& name, const std::string& split = "");
  // SHA-256 over names and bytes of the data files that the source is read from; its subtasks may
  // have the task's prefix or not.
  absl::StatusOr<std::string> DataDigest(const v1::TaskSource& source);

 private:
  std::shared_ptr<const tasks::TaskSet> Tasks();
  v1::TaskInfo Describe(const tasks::TaskDefinition& task);
  absl::StatusOr<plan::TaskFacts> Facts(const tasks::TaskDefinition& task);

  const std::vector<std::string> folders_;
  const std::map<std::string, std::string> data_;
  const RowCounter count_parquet_;

  std::mutex mutex_;  // guards what follows
  std::string stamp_;
  std::shared_ptr<const tasks::TaskSet> set_;
  std::map<std::string, std::pair<std::string, int64_t>> rows_;         // path -> stamp, rows
  std::map<std::string, std::pair<std::string, std::string>> digests_;  // path -> stamp, SHA-256
};

}  // namespace headcount::server
