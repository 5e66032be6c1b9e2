// See artifact_service.h.

#include "server/api/artifact_service.h"

#include "common/base/errors.h"
#include "common/rpc/grpc_status.h"

namespace headcount::server {
namespace {

class Refuse final : public grpc::ServerReadReactor<v1::UploadRequest> {
 public:
  explicit Refuse(const absl::Status& status) { Finish(rpc::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerReadReactor<v1::UploadRequest>* ArtifactServiceImpl::Upload(
    grpc::CallbackServerContext* call, v1::Artifact* response) {
  const absl::Status status = UnimplementedField("ArtifactService.Upload");
  context_.metrics.Handled("ArtifactService/Upload", status.code());
  return new Refuse(status);
}

}  // namespace headcount::server
