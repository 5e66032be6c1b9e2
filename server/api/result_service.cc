// See result_service.h.

#include "server/api/result_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "server/api/calls.h"
#include "server/api/download.h"
#include "server/export/artifacts.h"
#include "server/paper/published.h"

namespace headcount::server {

int ResultServiceImpl::KvHeadsOf(const v1::Job& job) const {
  const auto model = context_.catalog.FindModel(format::WorkloadOf(job).model());
  return model.ok() ? model->config.kv_heads : 0;
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetHeadScores(grpc::CallbackServerContext* call,
                                                           const v1::GetHeadScoresRequest* request,
                                                           v1::HeadScores* response) {
  return RunUnary(call, context_.slow, context_.metrics, "ResultService/GetHeadScores",
                  [=, this]() -> absl::Status {
                    HC_ASSIGN_OR_RETURN(const v1::Job job, context_.FindJob(*call, Action::kRead,
                                                                            "job", request->job()));
                    HC_ASSIGN_OR_RETURN(*response, results_.GetHeadScores(*request));
                    response->set_kv_heads(KvHeadsOf(job));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* ResultServiceImpl::QueryThresholds(
    grpc::CallbackServerContext* call, const v1::QueryThresholdsRequest* request,
    v1::QueryThresholdsResponse* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/QueryThresholds",
      [=, this]() -> absl::Status {
        HC_ASSIGN_OR_RETURN(const v1::Job job,
                            context_.FindJob(*call, Action::kRead, "job", request->job()));
        const auto model = context_.catalog.FindModel(format::WorkloadOf(job).model());
        HC_ASSIGN_OR_RETURN(
            *response, results_.QueryThresholds(*request, model.ok() ? &model->config : nullptr));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetCurves(grpc::CallbackServerContext* call,
                                                       const v1::GetCurvesRequest* request,
                                                       v1::Curves* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/GetCurves",
      [=, this]() -> absl::Status {
        HC_ASSIGN_OR_RETURN(const v1::Job job,
                            context_.FindJob(*call, Action::kRead, "job", request->job()));
        HC_ASSIGN_OR_RETURN(*response, results_.GetCurves(*request));
        response->set_published_model(paper::PublishedName(format::WorkloadOf(job).model()));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetFrontier(grpc::CallbackServerContext* call,
                                                         const v1::GetFrontierRequest* request,
                                                         v1::Frontier* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/GetFrontier",
      [=, this]() -> absl::Status {
        HC_RETURN_IF_ERROR(context_.FindJob(*call, Action::kRead, "job", request->job()).status());
        HC_ASSIGN_OR_RETURN(*response, results_.GetFrontier(*request));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetKnockout(grpc::CallbackServerContext* call,
                                                         const v1::GetKnockoutRequest* request,
                                                         v1::Knockout* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/GetKnockout",
      [=, this]() -> absl::Status {
        HC_ASSIGN_OR_RETURN(const v1::Job job,
                            context_.FindJob(*call, Action::kRead, "job", request->job()));
        // Scores of somebody else's job are not to be read through one's own.
        for (const std::string& scores : {request->score_job(), job.knockout().score_job()}) {
          if (scores.empty()) continue;
          HC_RETURN_IF_ERROR(context_.FindJob(*call, Action::kRead, "score_job", scores).status());
        }
        HC_ASSIGN_OR_RETURN(*response, results_.GetKnockout(*request));
        response->set_kv_heads(KvHeadsOf(job));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetInactivity(grpc::CallbackServerContext* call,
                                                           const v1::GetInactivityRequest* request,
                                                           v1::Inactivity* response) {
  return RunUnary(call, context_.slow, context_.metrics, "ResultService/GetInactivity",
                  [=, this]() -> absl::Status {
                    HC_ASSIGN_OR_RETURN(const v1::Job job, context_.FindJob(*call, Action::kRead,
                                                                            "job", request->job()));
                    HC_ASSIGN_OR_RETURN(*response, results_.GetInactivity(*request));
                    response->set_kv_heads(KvHeadsOf(job));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetProbe(grpc::CallbackServerContext* call,
                                                      const v1::GetProbeRequest* request,
                                                      v1::Probe* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/GetProbe", [=, this]() -> absl::Status {
        HC_ASSIGN_OR_RETURN(const v1::Job job,
                            context_.FindJob(*call, Action::kRead, "job", request->job()));
        HC_ASSIGN_OR_RETURN(*response, results_.GetProbe(*request));
        response->set_kv_heads(KvHeadsOf(job));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::CompareScores(grpc::CallbackServerContext* call,
                                                           const v1::CompareScoresRequest* request,
                                                           v1::Comparison* response) {
  return RunUnary(call, context_.slow, context_.metrics, "ResultService/CompareScores",
                  [=, this]() -> absl::Status {
                    HC_RETURN_IF_ERROR(
                        context_.FindJob(*call, Action::kRead, "job_a", request->job_a()).status());
                    HC_RETURN_IF_ERROR(
                        context_.FindJob(*call, Action::kRead, "job_b", request->job_b()).status());
                    HC_ASSIGN_OR_RETURN(*response, results_.CompareScores(*request));
                    return absl::OkStatus();
                  });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetComparison(grpc::CallbackServerContext* call,
                                                           const v1::GetComparisonRequest* request,
                                                           v1::Comparisons* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/GetComparison",
      [=, this]() -> absl::Status {
        HC_RETURN_IF_ERROR(context_.FindJob(*call, Action::kRead, "job", request->job()).status());
        HC_ASSIGN_OR_RETURN(*response, results_.GetComparison(*request));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetSweepTable(grpc::CallbackServerContext* call,
                                                           const v1::GetSweepTableRequest* request,
                                                           v1::SweepTable* response) {
  return RunUnary(
      call, context_.slow, context_.metrics, "ResultService/GetSweepTable",
      [=, this]() -> absl::Status {
        HC_RETURN_IF_ERROR(context_.FindJob(*call, Action::kRead, "job", request->job()).status());
        HC_ASSIGN_OR_RETURN(*response, results_.GetSweepTable(*request));
        for (v1::SweepSide& side : *response->mutable_sides()) {
          if (!side.has_curves()) continue;
          side.mutable_curves()->set_published_model(paper::PublishedName(side.model()));
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ResultServiceImpl::GetPublished(grpc::CallbackServerContext* call,
                                                          const v1::GetPublishedRequest* request,
                                                          v1::Published* response) {
  return RunUnary(call, context_.quick, context_.metrics, "ResultService/GetPublished",
                  [=, this]() -> absl::Status {
                    HC_RETURN_IF_ERROR(context_.Caller(*call).status());
                    HC_ASSIGN_OR_RETURN(*response, paper::GetPublished(*request));
                    return absl::OkStatus();
                  });
}

grpc::ServerWriteReactor<v1::SampleRecord>* ResultServiceImpl::ListSamples(
    grpc::CallbackServerContext* call, const v1::ListSamplesRequest* request) {
  return new StreamReactor<v1::SampleRecord>(
      context_.slow, context_.metrics, "ResultService/ListSamples",
      [this, call, request, stream = std::shared_ptr<results::SampleStream>()](
          v1::SampleRecord* record) mutable -> absl::StatusOr<bool> {
        if (stream == nullptr) {
          HC_RETURN_IF_ERROR(
              context_.FindJob(*call, Action::kRead, "job", request->job()).status());
          HC_ASSIGN_OR_RETURN(stream, results_.ListSamples(*request));
        }
        HC_ASSIGN_OR_RETURN(std::optional<v1::SampleRecord> next, stream->Next());
        if (!next.has_value()) return false;
        *record = *std::move(next);
        return true;
      });
}

grpc::ServerWriteReactor<v1::ArtifactChunk>* ResultServiceImpl::DownloadArtifact(
    grpc::CallbackServerContext* call, const v1::DownloadArtifactRequest* request) {
  return new StreamReactor<v1::ArtifactChunk>(
      context_.slow, context_.metrics, "ResultService/DownloadArtifact",
      [this, call, request, download = std::shared_ptr<Download>()](
          v1::ArtifactChunk* chunk) mutable -> absl::StatusOr<bool> {
        if (download == nullptr) {
          HC_RETURN_IF_ERROR(
              context_.FindJob(*call, Action::kRead, "job", request->job()).status());
          HC_ASSIGN_OR_RETURN(const std::string path,
                              exports::MakeArtifact(context_.jobs, context_.artifacts, *request,
                                                    context_.config.state_dir + "/exports"));
          HC_ASSIGN_OR_RETURN(download, Download::Open(path, request->offset()));
        }
        return download->Next(chunk);
      });
}

}  // namespace headcount::server
