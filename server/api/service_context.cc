// See service_context.h.

#include "server/api/service_context.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/api/calls.h"
#include "server/api/resource_names.h"
#include "server/plan/planners.h"
#include "server/results/child_name.h"
#include "server/watch/job_view.h"

namespace headcount::server {

absl::StatusOr<std::string> ServiceContext::Caller(const grpc::CallbackServerContext& call) const {
  return authoriser.Identify(ClaimedUser(call));
}

absl::StatusOr<v1::Job> ServiceContext::FindJob(const grpc::CallbackServerContext& call,
                                                Action action, const std::string& field,
                                                const std::string& name) const {
  HC_ASSIGN_OR_RETURN(const std::string user, Caller(call));
  HC_RETURN_IF_ERROR(CheckJobName(field, name));
  absl::StatusOr<v1::Job> job = jobs.GetJob(name);
  if (job.status().code() == absl::StatusCode::kNotFound) {
    return WithField(
        WithReason(absl::NotFoundError(absl::StrCat("there is no job ", name)), "JOB_NOT_FOUND"),
        field);
  }
  HC_RETURN_IF_ERROR(job.status());
  HC_RETURN_IF_ERROR(authoriser.Check(user, action, name, job->owner()));
  return job;
}

v1::Job ServiceContext::Shown(v1::Job job) const {
  if (const auto planner = plan::FindPlanner(job); planner.ok()) {
    if (const size_t children = (*planner)->Children(job).size(); children > 0) {
      *job.mutable_progress() = ProgressOfChildren(job, static_cast<int>(children));
      return job;
    }
  }
  v1::Progress& progress = *job.mutable_progress();
  const double rate = IsTerminal(job.state()) ? 0 : dispatcher.RowsPerSecond(job.name());
  progress.set_rows_per_second(rate);
  progress.set_remaining_seconds(RemainingSeconds(job, rate));
  return job;
}

v1::Progress ServiceContext::ProgressOfChildren(const v1::Job& job, int count) const {
  std::vector<v1::Job> children;
  for (int i = 0; i < count; ++i) {
    // Not created yet, or not to be read now: the job itself can be shown all the same.
    absl::StatusOr<v1::Job> child = jobs.GetJob(results::ChildName(job.name(), i));
    if (child.ok()) children.push_back(Shown(*std::move(child)));
  }
  return SumProgress(children, count, IsTerminal(job.state()));
}

v1::Job ServiceContext::ShownWithPosition(v1::Job job) const {
  job = Shown(std::move(job));
  if (job.state() != v1::Job::QUEUED) return job;
  // A view that cannot be had now costs the position, not the answer.
  if (const auto view = jobs.View(); view.ok()) {
    job.mutable_progress()->set_queue_position(QueuePosition(job, *view));
  }
  return job;
}

}  // namespace headcount::server
