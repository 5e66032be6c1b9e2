// JobService: create, read, list, steer and watch jobs. Thread-safe; status codes as in
// job_service.proto.

#pragma once

#include "headcount/v1/job_service.grpc.pb.h"
#include "server/api/service_context.h"

namespace headcount::server {

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  // `context` is not owned.
  explicit JobServiceImpl(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* call,
                                      const v1::CreateJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* call,
                                   const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* call,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* call,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* call,
                                     const v1::PauseJobRequest* request,
                                     v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* call,
                                      const v1::ResumeJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* call,
                                      const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext* call,
                                                   const v1::WatchJobRequest* request) override;

 private:
  absl::Status Create(const grpc::CallbackServerContext& call, const v1::CreateJobRequest& request,
                      v1::Job* response) const;
  absl::Status List(const grpc::CallbackServerContext& call, const v1::ListJobsRequest& request,
                    v1::ListJobsResponse* response) const;
  absl::Status Delete(const grpc::CallbackServerContext& call,
                      const v1::DeleteJobRequest& request) const;
  // Cancel, pause and resume: from the states of `change` to another; a job in one of `already`
  // is answered as it is.
  absl::Status Steer(const grpc::CallbackServerContext& call, store::StateChange change,
                     const std::vector<v1::Job::State>& already, v1::Job* response) const;

  const ServiceContext& context_;
};

}  // namespace headcount::server
