// CatalogService: models, scores, tasks and what this server is. Thread-safe.

#pragma once

#include "headcount/v1/catalog_service.grpc.pb.h"
#include "server/api/service_context.h"

namespace headcount::server {

class CatalogServiceImpl final : public v1::CatalogService::CallbackService {
 public:
  // `context` is not owned.
  explicit CatalogServiceImpl(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* call,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* ListScores(grpc::CallbackServerContext* call,
                                       const v1::ListScoresRequest* request,
                                       v1::ListScoresResponse* response) override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext* call,
                                      const v1::ListTasksRequest* request,
                                      v1::ListTasksResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call,
                                          const v1::GetServerInfoRequest* request,
                                          v1::ServerInfo* response) override;

 private:
  const ServiceContext& context_;
};

}  // namespace headcount::server
