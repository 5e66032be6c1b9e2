// ArtifactService: defined in the contract, not served by this version; every call says so.
// Thread-safe.

#pragma once

#include "headcount/v1/artifact_service.grpc.pb.h"
#include "server/api/service_context.h"

namespace headcount::server {

class ArtifactServiceImpl final : public v1::ArtifactService::CallbackService {
 public:
  // `context` is not owned.
  explicit ArtifactServiceImpl(const ServiceContext& context) : context_(context) {}

  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* call,
                                                     v1::Artifact* response) override;

 private:
  const ServiceContext& context_;
};

}  // namespace headcount::server
