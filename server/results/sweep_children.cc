// See sweep_children.h.

#include "server/results/sweep_children.h"

#include "absl/strings/str_cat.h"
#include "common/catalog/scores.h"
#include "server/results/child_name.h"

namespace headcount::results {
namespace {

bool HasCalibration(const v1::SweepSpec& spec) {
  return !spec.calibrate_on().empty() && !NamesJob(spec.calibrate_on());
}

// The workload of every task, on the first model.
std::vector<v1::Workload> TasksOf(const v1::SweepSpec& spec) {
  std::vector<v1::Workload> tasks = {spec.workload()};
  for (const v1::TaskSource& task : spec.tasks()) {
    *tasks.emplace_back(spec.workload()).mutable_task() = task;
  }
  return tasks;
}

// What is the same on every calibration is not run again.
void LeaveMeasuredScores(v1::SweepSpec* spec) {
  spec->clear_controls();
  auto& scores = *spec->mutable_scores();
  for (int i = scores.size() - 1; i >= 0; --i) {
    const auto score = catalog::FindScore(scores[i]);
    if (score.ok() && (*score)->is_random()) scores.DeleteSubrange(i, 1);
  }
}

class Children {
 public:
  explicit Children(const v1::Job& job)
      : job_(job), spec_(job.sweep()), one_(spec_), tasks_(TasksOf(spec_)) {
    one_.clear_models();
    one_.clear_tasks();
    one_.clear_transfer();
  }

  std::vector<SweepChild> All() && {
    AddModel(spec_.workload().model());
    for (const std::string& model : spec_.models()) AddModel(model);
    return std::move(children_);
  }

 private:
  void AddModel(const std::string& model) {
    std::vector<int> after;
    if (HasCalibration(spec_)) {
      v1::Workload workload = CalibrationWorkload(spec_.workload(), spec_.calibrate_on());
      workload.set_model(model);
      after.push_back(static_cast<int>(children_.size()));
      *children_.emplace_back().job.mutable_score()->mutable_workload() = std::move(workload);
    }
    const int first = static_cast<int>(children_.size());
    for (const v1::Workload& task : tasks_) {
      SweepChild& child = AddSweep(task, model);
      child.after = after;
      child.calibrated_on = spec_.calibrate_on();
      if (!after.empty()) {
        child.job.mutable_sweep()->set_calibrate_on(ChildName(job_.name(), after.front()));
      }
    }
    if (!spec_.transfer()) return;
    for (size_t from = 0; from < tasks_.size(); ++from) {
      for (size_t to = 0; to < tasks_.size(); ++to) {
        if (from == to) continue;
        const int calibration = first + static_cast<int>(from);
        SweepChild& child = AddSweep(tasks_[to], model);
        child.after = {calibration};
        child.calibrated_on = TaskLabel(tasks_[from]);
        child.transferred = true;
        LeaveMeasuredScores(child.job.mutable_sweep());
        child.job.mutable_sweep()->set_calibrate_on(ChildName(job_.name(), calibration));
      }
    }
  }

  SweepChild& AddSweep(const v1::Workload& task, const std::string& model) {
    SweepChild& child = children_.emplace_back();
    *child.job.mutable_sweep() = one_;
    *child.job.mutable_sweep()->mutable_workload() = task;
    child.job.mutable_sweep()->mutable_workload()->set_model(model);
    return child;
  }

  const v1::Job& job_;
  const v1::SweepSpec& spec_;
  v1::SweepSpec one_;  // of a single model and task
  std::vector<v1::Workload> tasks_;
  std::vector<SweepChild> children_;
};

}  // namespace

bool NamesJob(const std::string& calibrate_on) {
  return calibrate_on.find('/') != std::string::npos;
}

bool HasChildren(const v1::SweepSpec& spec) {
  return !spec.models().empty() || !spec.tasks().empty() || HasCalibration(spec);
}

int64_t CountChildren(const v1::SweepSpec& spec) {
  if (!HasChildren(spec)) return 0;
  const int64_t tasks = 1 + spec.tasks_size();
  const int64_t of_model =
      tasks + (HasCalibration(spec) ? 1 : 0) + (spec.transfer() ? tasks * (tasks - 1) : 0);
  return (1 + spec.models_size()) * of_model;
}

std::vector<SweepChild> SweepChildren(const v1::Job& job) {
  if (!HasChildren(job.sweep())) return {};
  return Children(job).All();
}

v1::Workload CalibrationWorkload(const v1::Workload& workload, const std::string& calibrate_on) {
  v1::Workload calibration = workload;
  v1::TaskSource& task = *calibration.mutable_task();
  const size_t colon = calibrate_on.find(':');
  task.set_task(calibrate_on.substr(0, colon));
  task.set_split(colon == std::string::npos ? "" : calibrate_on.substr(colon + 1));
  task.clear_subtasks();
  task.clear_max_new_tokens();
  return calibration;
}

std::string TaskLabel(const v1::Workload& workload) {
  if (!workload.has_task()) return "requests";
  const v1::TaskSource& task = workload.task();
  return task.split().empty() ? task.task() : absl::StrCat(task.task(), ":", task.split());
}

}  // namespace headcount::results
