// See catalog_service.h.

#include "server/api/catalog_service.h"

#include "common/base/status_macros.h"
#include "common/catalog/numerics_version.h"
#include "common/catalog/scores.h"
#include "server/api/calls.h"
#include "server/api/version.h"
#include "server/store/migrations.h"

namespace headcount::server {

grpc::ServerUnaryReactor* CatalogServiceImpl::ListModels(grpc::CallbackServerContext* call,
                                                         const v1::ListModelsRequest* request,
                                                         v1::ListModelsResponse* response) {
  return RunUnary(call, context_.quick, context_.metrics, "CatalogService/ListModels",
                  [=, this]() -> absl::Status {
                    HC_RETURN_IF_ERROR(context_.Caller(*call).status());
                    const std::vector<v1::WorkerInfo> workers = context_.dispatcher.Workers();
                    for (v1::Model& model : context_.catalog.models().List()) {
                      for (const v1::WorkerInfo& worker : workers) {
                        if (worker.state() != "lost" && worker.loaded_model() == model.name()) {
                          model.add_loaded_on(worker.worker());
                        }
                      }
                      *response->add_models() = std::move(model);
                    }
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* CatalogServiceImpl::ListScores(grpc::CallbackServerContext* call,
                                                         const v1::ListScoresRequest* request,
                                                         v1::ListScoresResponse* response) {
  return RunUnary(
      call, context_.quick, context_.metrics, "CatalogService/ListScores",
      [=, this]() -> absl::Status {
        HC_RETURN_IF_ERROR(context_.Caller(*call).status());
        for (const catalog::Score& score : catalog::Scores()) {
          v1::ScoreInfo& info = *response->add_scores();
          info.set_id(score.id);
          info.set_paper_name(score.paper_name);
          info.set_alias(score.alias);
          info.set_formula(score.formula);
          info.set_unit(score.unit);
          info.set_inactive_side(score.inactive == catalog::Inactive::kBelow ? "<" : ">");
          info.set_source(score.source);
          info.set_description(score.description);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* CatalogServiceImpl::ListTasks(grpc::CallbackServerContext* call,
                                                        const v1::ListTasksRequest* request,
                                                        v1::ListTasksResponse* response) {
  return RunUnary(call, context_.quick, context_.metrics, "CatalogService/ListTasks",
                  [=, this]() -> absl::Status {
                    HC_RETURN_IF_ERROR(context_.Caller(*call).status());
                    for (v1::TaskInfo& task : context_.catalog.tasks().List()) {
                      *response->add_tasks() = std::move(task);
                    }
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* CatalogServiceImpl::GetServerInfo(grpc::CallbackServerContext* call,
                                                            const v1::GetServerInfoRequest* request,
                                                            v1::ServerInfo* response) {
  return RunUnary(call, context_.quick, context_.metrics, "CatalogService/GetServerInfo",
                  [=, this]() -> absl::Status {
                    HC_RETURN_IF_ERROR(context_.Caller(*call).status());
                    response->set_version(kVersion);
                    response->set_numerics_version(catalog::kNumericsVersion);
                    response->set_schema_version(store::Migrations().back().version);
                    response->set_max_rules(context_.config.max_rules);
                    response->set_max_inline_bytes(context_.config.max_inline_bytes);
                    response->set_samples_per_unit(context_.config.samples_per_unit);
                    response->set_rules_per_unit(context_.config.rules_per_unit);
                    for (v1::WorkerInfo& worker : context_.dispatcher.Workers()) {
                      *response->add_workers() = std::move(worker);
                    }
                    return absl::OkStatus();
                  });
}

}  // namespace headcount::server
