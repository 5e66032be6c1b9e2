// WorkerService: the workers' side of the queue. Held Synchronize calls cost no thread.
// Thread-safe; status codes as in worker_service.proto.

#pragma once

#include "headcount/v1/worker_service.grpc.pb.h"
#include "server/api/held_calls.h"
#include "server/api/service_context.h"

namespace headcount::server {

class WorkerServiceImpl final : public v1::WorkerService::CallbackService {
 public:
  // Neither is owned.
  WorkerServiceImpl(const ServiceContext& context, HeldCalls& held)
      : context_(context), held_(held) {}

  grpc::ServerUnaryReactor* Synchronize(grpc::CallbackServerContext* call,
                                        const v1::SynchronizeRequest* request,
                                        v1::SynchronizeResponse* response) override;
  grpc::ServerWriteReactor<v1::ManifestSlice>* GetManifestSlice(
      grpc::CallbackServerContext* call, const v1::GetManifestSliceRequest* request) override;
  grpc::ServerReadReactor<v1::ReportResultsRequest>* ReportResults(
      grpc::CallbackServerContext* call, v1::ReportResultsResponse* response) override;

 private:
  const ServiceContext& context_;
  HeldCalls& held_;
};

}  // namespace headcount::server
