// See admin_service.h.

#include "server/api/admin_service.h"

#include <spdlog/spdlog.h>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/api/calls.h"

namespace headcount::server {

grpc::ServerUnaryReactor* AdminServiceImpl::ListWorkers(grpc::CallbackServerContext* call,
                                                        const v1::ListWorkersRequest* request,
                                                        v1::ListWorkersResponse* response) {
  return RunUnary(call, context_.quick, context_.metrics, "AdminService/ListWorkers",
                  [=, this]() -> absl::Status {
                    for (v1::WorkerInfo& worker : context_.dispatcher.Workers()) {
                      *response->add_workers() = std::move(worker);
                    }
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::DrainWorker(grpc::CallbackServerContext* call,
                                                        const v1::DrainWorkerRequest* request,
                                                        v1::WorkerInfo* response) {
  return RunUnary(call, context_.quick, context_.metrics, "AdminService/DrainWorker",
                  [=, this]() -> absl::Status {
                    if (request->worker().empty()) {
                      return InvalidField("worker", "", "must name a worker");
                    }
                    HC_ASSIGN_OR_RETURN(
                        *response, context_.dispatcher.Drain(request->worker(), request->reason()));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::SetQuota(grpc::CallbackServerContext* call,
                                                     const v1::SetQuotaRequest* request,
                                                     v1::SetQuotaResponse* response) {
  return RunUnary(call, context_.quick, context_.metrics, "AdminService/SetQuota",
                  [] { return UnimplementedField("AdminService.SetQuota"); });
}

}  // namespace headcount::server
