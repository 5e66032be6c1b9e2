// See worker_service.h.

#include "server/api/worker_service.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "server/api/calls.h"
#include "server/api/report_call.h"

namespace headcount::server {

grpc::ServerUnaryReactor* WorkerServiceImpl::Synchronize(grpc::CallbackServerContext* call,
                                                         const v1::SynchronizeRequest* request,
                                                         v1::SynchronizeResponse* response) {
  return held_.Start(request, response);
}

grpc::ServerWriteReactor<v1::ManifestSlice>* WorkerServiceImpl::GetManifestSlice(
    grpc::CallbackServerContext* call, const v1::GetManifestSliceRequest* request) {
  struct State {
    std::vector<v1::ManifestSlice> pieces;
    size_t next = 0;
    bool cut = false;
  };
  return new StreamReactor<v1::ManifestSlice>(
      context_.quick, context_.metrics, "WorkerService/GetManifestSlice",
      [this, request,
       state = std::make_shared<State>()](v1::ManifestSlice* piece) -> absl::StatusOr<bool> {
        if (!state->cut) {
          HC_ASSIGN_OR_RETURN(const auto manifest, context_.manifests.Get(request->digest()));
          HC_ASSIGN_OR_RETURN(
              state->pieces,
              queue::SliceManifest(*manifest, request->first_sample(), request->samples()));
          state->cut = true;
        }
        if (state->next == state->pieces.size()) return false;
        *piece = std::move(state->pieces[state->next++]);
        return true;
      });
}

grpc::ServerReadReactor<v1::ReportResultsRequest>* WorkerServiceImpl::ReportResults(
    grpc::CallbackServerContext* call, v1::ReportResultsResponse* response) {
  return new ReportCall(context_, response);
}

}  // namespace headcount::server
