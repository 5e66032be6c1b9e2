// All that is read from a job's stored results, behind one door: the API calls it, exports and
// tests too. Answers are derived from chunks on every call, so they are as new as the store; only
// curve points that cannot change any more are remembered.
//
// Thread-safe. Errors: those of thresholds.h, head_scores.h, curves.h and samples.h;
// FAILED_PRECONDITION (RESULTS_NOT_READY) before the first unit of the stage that an answer needs
// is stored.

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "headcount/v1/result_service.pb.h"
#include "server/results/curve_cache.h"
#include "server/results/samples.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

class ResultReader {
 public:
  // Both must outlive the reader.
  ResultReader(store::JobStore& jobs, store::ArtifactStore& artifacts)
      : jobs_(jobs), artifacts_(artifacts) {}

  // kv_heads is 0: the store does not know it, the API fills it in from the catalogue.
  absl::StatusOr<v1::HeadScores> GetHeadScores(const v1::GetHeadScoresRequest& request) const;
  absl::StatusOr<v1::QueryThresholdsResponse> QueryThresholds(
      const v1::QueryThresholdsRequest& request, const catalog::ModelConfig* model) const;
  absl::StatusOr<v1::Curves> GetCurves(const v1::GetCurvesRequest& request) const;
  absl::StatusOr<v1::Frontier> GetFrontier(const v1::GetFrontierRequest& request) const;
  // kv_heads is 0 in these three as well.
  absl::StatusOr<v1::Knockout> GetKnockout(const v1::GetKnockoutRequest& request) const;
  absl::StatusOr<v1::Inactivity> GetInactivity(const v1::GetInactivityRequest& request) const;
  absl::StatusOr<v1::Probe> GetProbe(const v1::GetProbeRequest& request) const;
  absl::StatusOr<v1::Comparisons> GetComparison(const v1::GetComparisonRequest& request) const;
  absl::StatusOr<v1::SweepTable> GetSweepTable(const v1::GetSweepTableRequest& request) const;
  absl::StatusOr<v1::Comparison> CompareScores(const v1::CompareScoresRequest& request) const;
  // Records are pulled from the stream one by one, by one thread at a time.
  absl::StatusOr<std::unique_ptr<SampleStream>> ListSamples(
      const v1::ListSamplesRequest& request) const;

 private:
  store::JobStore& jobs_;
  store::ArtifactStore& artifacts_;
  mutable CurveCache curve_cache_;
};

}  // namespace headcount::results
