// ResultService: everything that is derived from stored results, on threads of their own. Streams
// hold one message. Thread-safe; status codes as in result_service.proto.

#pragma once

#include "headcount/v1/result_service.grpc.pb.h"
#include "server/api/service_context.h"
#include "server/results/result_reader.h"

namespace headcount::server {

class ResultServiceImpl final : public v1::ResultService::CallbackService {
 public:
  // `context` is not owned.
  explicit ResultServiceImpl(const ServiceContext& context)
      : context_(context), results_(context.jobs, context.artifacts) {}

  grpc::ServerUnaryReactor* GetHeadScores(grpc::CallbackServerContext* call,
                                          const v1::GetHeadScoresRequest* request,
                                          v1::HeadScores* response) override;
  grpc::ServerUnaryReactor* QueryThresholds(grpc::CallbackServerContext* call,
                                            const v1::QueryThresholdsRequest* request,
                                            v1::QueryThresholdsResponse* response) override;
  grpc::ServerUnaryReactor* GetCurves(grpc::CallbackServerContext* call,
                                      const v1::GetCurvesRequest* request,
                                      v1::Curves* response) override;
  grpc::ServerUnaryReactor* GetFrontier(grpc::CallbackServerContext* call,
                                        const v1::GetFrontierRequest* request,
                                        v1::Frontier* response) override;
  grpc::ServerUnaryReactor* GetKnockout(grpc::CallbackServerContext* call,
                                        const v1::GetKnockoutRequest* request,
                                        v1::Knockout* response) override;
  grpc::ServerUnaryReactor* GetInactivity(grpc::CallbackServerContext* call,
                                          const v1::GetInactivityRequest* request,
                                          v1::Inactivity* response) override;
  grpc::ServerUnaryReactor* GetProbe(grpc::CallbackServerContext* call,
                                     const v1::GetProbeRequest* request,
                                     v1::Probe* response) override;
  grpc::ServerUnaryReactor* CompareScores(grpc::CallbackServerContext* call,
                                          const v1::CompareScoresRequest* request,
                                          v1::Comparison* response) override;
  grpc::ServerUnaryReactor* GetComparison(grpc::CallbackServerContext* call,
                                          const v1::GetComparisonRequest* request,
                                          v1::Comparisons* response) override;
  grpc::ServerUnaryReactor* GetSweepTable(grpc::CallbackServerContext* call,
                                          const v1::GetSweepTableRequest* request,
                                          v1::SweepTable* response) override;
  grpc::ServerUnaryReactor* GetPublished(grpc::CallbackServerContext* call,
                                         const v1::GetPublishedRequest* request,
                                         v1::Published* response) override;
  grpc::ServerWriteReactor<v1::SampleRecord>* ListSamples(
      grpc::CallbackServerContext* call, const v1::ListSamplesRequest* request) override;
  grpc::ServerWriteReactor<v1::ArtifactChunk>* DownloadArtifact(
      grpc::CallbackServerContext* call, const v1::DownloadArtifactRequest* request) override;

 private:
  // How many KV heads the job's model has; 0 where it is gone.
  int KvHeadsOf(const v1::Job& job) const;

  const ServiceContext& context_;
  const results::ResultReader results_;
};

}  // namespace headcount::server
