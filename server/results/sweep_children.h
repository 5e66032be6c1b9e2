// The jobs that a sweep over several models or tasks is made of: the planner creates them, the
// table of their curves finds them by the same list. For every model a score job of the calibrating
// task where there is one, then a sweep of every task, then those of a transfer. Pure.

#pragma once

#include <string>
#include <vector>

#include "headcount/v1/job.pb.h"

namespace headcount::results {

struct SweepChild {
  v1::Job job;             // its spec alone; ChildName says what it is called
  std::vector<int> after;  // children that must have succeeded first
  // The task or job that its thresholds come from; empty: its own documents.
  std::string calibrated_on;
  bool transferred = false;  // with the thresholds of another task of the same sweep
};

// Whether the job is made of others: it has several models or tasks, or a calibrating task.
bool HasChildren(const v1::SweepSpec& spec);

// How many SweepChildren would return.
int64_t CountChildren(const v1::SweepSpec& spec);

// Of a sweep job with a name; empty where it is run itself.
std::vector<SweepChild> SweepChildren(const v1::Job& job);

// Whether `calibrate_on` names a job, not a task.
bool NamesJob(const std::string& calibrate_on);

// The workload of the task "name" or "name:split", in the form of `workload`.
v1::Workload CalibrationWorkload(const v1::Workload& workload, const std::string& calibrate_on);

// "task", or "task:split" where another split than its own is asked for; "requests" without a task.
std::string TaskLabel(const v1::Workload& workload);

}  // namespace headcount::results
