// See result_reader.h.

#include "server/results/result_reader.h"

#include "server/results/compare.h"
#include "server/results/curves.h"
#include "server/results/frontier.h"
#include "server/results/head_scores.h"
#include "server/results/inactivity.h"
#include "server/results/knockout.h"
#include "server/results/probe.h"
#include "server/results/sweep_table.h"
#include "server/results/thresholds.h"

namespace headcount::results {

absl::StatusOr<v1::HeadScores> ResultReader::GetHeadScores(
    const v1::GetHeadScoresRequest& request) const {
  return results::GetHeadScores(jobs_, artifacts_, request);
}

absl::StatusOr<v1::QueryThresholdsResponse> ResultReader::QueryThresholds(
    const v1::QueryThresholdsRequest& request, const catalog::ModelConfig* model) const {
  return results::QueryThresholds(jobs_, artifacts_, request, model);
}

absl::StatusOr<v1::Curves> ResultReader::GetCurves(const v1::GetCurvesRequest& request) const {
  return results::GetCurves(jobs_, artifacts_, request, &curve_cache_);
}

absl::StatusOr<v1::Frontier> ResultReader::GetFrontier(
    const v1::GetFrontierRequest& request) const {
  return results::GetFrontier(jobs_, artifacts_, request);
}

absl::StatusOr<v1::Knockout> ResultReader::GetKnockout(
    const v1::GetKnockoutRequest& request) const {
  return results::GetKnockout(jobs_, artifacts_, request);
}

absl::StatusOr<v1::Inactivity> ResultReader::GetInactivity(
    const v1::GetInactivityRequest& request) const {
  return results::GetInactivity(jobs_, artifacts_, request);
}

absl::StatusOr<v1::Probe> ResultReader::GetProbe(const v1::GetProbeRequest& request) const {
  return results::GetProbe(jobs_, artifacts_, request);
}

absl::StatusOr<v1::Comparisons> ResultReader::GetComparison(
    const v1::GetComparisonRequest& request) const {
  return results::GetComparison(jobs_, artifacts_, request);
}

absl::StatusOr<v1::SweepTable> ResultReader::GetSweepTable(
    const v1::GetSweepTableRequest& request) const {
  return results::GetSweepTable(
      jobs_, [this](const v1::GetCurvesRequest& ask) { return GetCurves(ask); }, request);
}

absl::StatusOr<v1::Comparison> ResultReader::CompareScores(
    const v1::CompareScoresRequest& request) const {
  return results::CompareScores(jobs_, artifacts_, request);
}

absl::StatusOr<std::unique_ptr<SampleStream>> ResultReader::ListSamples(
    const v1::ListSamplesRequest& request) const {
  return SampleStream::Open(jobs_, artifacts_, request);
}

}  // namespace headcount::results
