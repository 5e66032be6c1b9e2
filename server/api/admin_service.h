// AdminService, on the workers' listener: list and drain workers. Thread-safe.

#pragma once

#include "headcount/v1/admin_service.grpc.pb.h"
#include "server/api/service_context.h"

namespace headcount::server {

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  // `context` is not owned.
  explicit AdminServiceImpl(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* call,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* call,
                                        const v1::DrainWorkerRequest* request,
                                        v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* SetQuota(grpc::CallbackServerContext* call,
                                     const v1::SetQuotaRequest* request,
                                     v1::SetQuotaResponse* response) override;

 private:
  const ServiceContext& context_;
};

}  // namespace headcount::server
