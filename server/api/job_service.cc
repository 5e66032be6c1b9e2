// See job_service.h.

#include "server/api/job_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/api/calls.h"
#include "server/api/new_job.h"
#include "server/api/page_token.h"
#include "server/api/resource_names.h"
#include "server/api/watch_reactor.h"
#include "server/plan/validate.h"
#include "server/watch/job_view.h"

namespace headcount::server {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 1'000;
// An answer stays well below the message limit, however large the jobs' specs are.
constexpr size_t kLargestAnswer = size_t{3} << 20;

}  // namespace

grpc::ServerUnaryReactor* JobServiceImpl::CreateJob(grpc::CallbackServerContext* call,
                                                    const v1::CreateJobRequest* request,
                                                    v1::Job* response) {
  return RunUnary(call, context_.quick, context_.metrics, "JobService/CreateJob",
                  [=, this] { return Create(*call, *request, response); });
}

absl::Status JobServiceImpl::Create(const grpc::CallbackServerContext& call,
                                    const v1::CreateJobRequest& request, v1::Job* response) const {
  HC_ASSIGN_OR_RETURN(const std::string user, context_.Caller(call));
  HC_ASSIGN_OR_RETURN(const std::string project, ParseParent("parent", request.parent()));
  HC_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.has_job()) return InvalidField("job", "", "must be set");
  HC_RETURN_IF_ERROR(plan::ValidateJob(
      request.job(), {context_.catalog, context_.jobs, plan::LimitsOf(context_.config)}));
  const store::NewJob job = MakeNewJob(request, project, user, context_.ids);
  if (request.validate_only()) {
    *response = job.job;
    response->clear_name();
    response->clear_uid();
    response->set_state(v1::Job::QUEUED);
    return absl::OkStatus();
  }
  HC_ASSIGN_OR_RETURN(store::CreatedJob created,
                      context_.jobs.CreateJob(job, context_.config.max_queued_jobs));
  if (created.created) {
    spdlog::info("job {} created by {}", created.job.name(), user);
    context_.metrics.JobOpened(created.job, /*submitted=*/true);
    context_.flow.Post(created.job.name());
  }
  *response = context_.Shown(std::move(created.job));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(grpc::CallbackServerContext* call,
                                                 const v1::GetJobRequest* request,
                                                 v1::Job* response) {
  return RunUnary(
      call, context_.quick, context_.metrics, "JobService/GetJob", [=, this]() -> absl::Status {
        HC_ASSIGN_OR_RETURN(v1::Job job,
                            context_.FindJob(*call, Action::kRead, "name", request->name()));
        *response = context_.ShownWithPosition(std::move(job));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(grpc::CallbackServerContext* call,
                                                   const v1::ListJobsRequest* request,
                                                   v1::ListJobsResponse* response) {
  return RunUnary(call, context_.quick, context_.metrics, "JobService/ListJobs",
                  [=, this] { return List(*call, *request, response); });
}

absl::Status JobServiceImpl::List(const grpc::CallbackServerContext& call,
                                  const v1::ListJobsRequest& request,
                                  v1::ListJobsResponse* response) const {
  HC_ASSIGN_OR_RETURN(const std::string user, context_.Caller(call));
  HC_ASSIGN_OR_RETURN(const std::string project, ParseParent("parent", request.parent()));
  if (request.page_size() < 0) {
    return InvalidField("page_size", std::to_string(request.page_size()), "must not be negative");
  }
  for (int i = 0; i < request.filter().states_size(); ++i) {
    if (!v1::Job::State_IsValid(request.filter().states(i)) || request.filter().states(i) == 0) {
      return InvalidField(std::string(absl::StrCat("filter.states[", i, "]")),
                          std::to_string(request.filter().states(i)), "is no state of a job");
    }
  }
  // Maps serialise in any order; the token is bound to one.
  std::vector<std::string> labels;
  for (const auto& [key, value] : request.filter().labels()) labels.push_back(key + "=" + value);
  std::sort(labels.begin(), labels.end());
  std::string binding = absl::StrCat(project, "\n", request.filter().owner(), "\n");
  for (const std::string& label : labels) absl::StrAppend(&binding, label, "\n");
  for (const int state : request.filter().states()) absl::StrAppend(&binding, state, " ");
  HC_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(binding, request.page_token()));

  const int page_size =
      request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kLargestPage);
  HC_ASSIGN_OR_RETURN(store::JobPage page,
                      context_.jobs.ListJobs({project, request.filter()}, after, page_size));
  size_t bytes = 0;
  for (v1::Job& job : page.jobs) {
    if (!context_.authoriser.Check(user, Action::kRead, job.name(), job.owner()).ok()) continue;
    bytes += job.ByteSizeLong();
    if (bytes > kLargestAnswer && response->jobs_size() > 0) {
      page.more = true;
      break;
    }
    *response->add_jobs() = context_.Shown(std::move(job));
  }
  if (page.more && response->jobs_size() > 0) {
    response->set_next_page_token(
        MakePageToken(binding, response->jobs(response->jobs_size() - 1).name()));
  }
  return absl::OkStatus();
}

absl::Status JobServiceImpl::Steer(const grpc::CallbackServerContext& call,
                                   store::StateChange change,
                                   const std::vector<v1::Job::State>& already,
                                   v1::Job* response) const {
  HC_ASSIGN_OR_RETURN(v1::Job job, context_.FindJob(call, Action::kSteer, "name", change.job));
  const auto refused = [&](const v1::Job& now) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat("job ", now.name(), " is ",
                                                                 v1::Job::State_Name(now.state()))),
                      IsTerminal(now.state()) ? "JOB_TERMINAL" : "JOB_STATE");
  };
  if (std::find(already.begin(), already.end(), job.state()) != already.end()) {
    if (!change.etag.empty() && change.etag != job.etag()) {
      return WithField(WithReason(absl::AbortedError("etag: the job changed since it was read"),
                                  "ETAG_MISMATCH"),
                       "etag");
    }
    *response = context_.Shown(std::move(job));
    return absl::OkStatus();
  }
  if (std::find(change.from.begin(), change.from.end(), job.state()) == change.from.end()) {
    return refused(job);
  }
  HC_ASSIGN_OR_RETURN(job, context_.jobs.UpdateState(change));
  context_.flow.Post(job.name());
  context_.dispatcher.NotifyChanged();
  *response = context_.Shown(std::move(job));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(grpc::CallbackServerContext* call,
                                                    const v1::CancelJobRequest* request,
                                                    v1::Job* response) {
  return RunUnary(call, context_.quick, context_.metrics, "JobService/CancelJob", [=, this] {
    return Steer(*call,
                 {.job = request->name(),
                  .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING, v1::Job::PAUSED},
                  .to = v1::Job::CANCELLING,
                  .reason = "CANCELLED_BY_USER",
                  .etag = request->etag()},
                 {v1::Job::CANCELLING, v1::Job::CANCELLED}, response);
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::PauseJob(grpc::CallbackServerContext* call,
                                                   const v1::PauseJobRequest* request,
                                                   v1::Job* response) {
  return RunUnary(call, context_.quick, context_.metrics, "JobService/PauseJob", [=, this] {
    return Steer(*call,
                 {.job = request->name(),
                  .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING},
                  .to = v1::Job::PAUSED,
                  .reason = "PAUSED_BY_USER",
                  .etag = request->etag()},
                 {v1::Job::PAUSED}, response);
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::ResumeJob(grpc::CallbackServerContext* call,
                                                    const v1::ResumeJobRequest* request,
                                                    v1::Job* response) {
  return RunUnary(call, context_.quick, context_.metrics, "JobService/ResumeJob", [=, this] {
    return Steer(*call,
                 {.job = request->name(),
                  .from = {v1::Job::PAUSED},
                  .to = v1::Job::QUEUED,
                  .reason = "RESUMED_BY_USER",
                  .etag = request->etag()},
                 {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING}, response);
  });
}

grpc::ServerUnaryReactor* JobServiceImpl::DeleteJob(grpc::CallbackServerContext* call,
                                                    const v1::DeleteJobRequest* request,
                                                    v1::DeleteJobResponse* response) {
  return RunUnary(call, context_.quick, context_.metrics, "JobService/DeleteJob",
                  [=, this] { return Delete(*call, *request); });
}

absl::Status JobServiceImpl::Delete(const grpc::CallbackServerContext& call,
                                    const v1::DeleteJobRequest& request) const {
  HC_RETURN_IF_ERROR(context_.FindJob(call, Action::kSteer, "name", request.name()).status());
  HC_RETURN_IF_ERROR(context_.jobs.DeleteJob(request.name(), request.etag()));
  spdlog::info("job {} deleted", request.name());
  context_.feed.JobDeleted(request.name());
  return absl::OkStatus();
}

grpc::ServerWriteReactor<v1::JobEvent>* JobServiceImpl::WatchJob(
    grpc::CallbackServerContext* call, const v1::WatchJobRequest* request) {
  if (absl::Status status = CheckJobName("name", request->name()); !status.ok()) {
    return FailStream<v1::JobEvent>(context_.stream, context_.metrics, "JobService/WatchJob",
                                    std::move(status));
  }
  const auto job = [this, call](const std::string& name) -> absl::StatusOr<v1::Job> {
    HC_ASSIGN_OR_RETURN(v1::Job found, context_.FindJob(*call, Action::kRead, "name", name));
    return context_.ShownWithPosition(std::move(found));
  };
  return new WatchReactor(
      {context_.feed, context_.clock, context_.stream, context_.metrics, context_.stopping},
      request->name(),
      std::make_unique<WatchCursor>(context_.feed, context_.jobs, context_.clock, job, *request));
}

}  // namespace headcount::server
