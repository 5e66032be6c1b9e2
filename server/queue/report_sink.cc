// See report_sink.h.

#include "server/queue/report_sink.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "server/plan/cutter.h"
#include "server/queue/chunk_check.h"
#include "spdlog/spdlog.h"

namespace headcount::queue {
namespace {

absl::Status CheckTransfer(const v1::ReportHeader& header, std::string_view data) {
  if (header.bytes() != static_cast<int64_t>(data.size())) {
    return WithReason(absl::DataLossError(absl::StrCat("bytes: the header says ", header.bytes(),
                                                       ", ", data.size(), " came")),
                      "CHUNK_CORRUPT");
  }
  if (const uint32_t crc = Crc32c(data); header.crc32c() != crc) {
    return WithReason(absl::DataLossError(absl::StrCat("crc32c: the header says ", header.crc32c(),
                                                       ", the bytes have ", crc)),
                      "CHUNK_CORRUPT");
  }
  return absl::OkStatus();
}

// What the job stands on has gone since it was created. NOT_FOUND would tell the worker that its
// job is gone, and it would be given the same task again.
absl::Status Gone(const absl::Status& status, const char* what) {
  if (!absl::IsNotFound(status)) return status;
  return WithReason(absl::FailedPreconditionError(absl::StrCat(what, ": ", status.message())),
                    "JOB_INPUT_GONE");
}

v1::ReportResultsResponse Answer(v1::ReportResultsResponse::Outcome outcome) {
  v1::ReportResultsResponse response;
  response.set_outcome(outcome);
  return response;
}

}  // namespace

ReportSink::ReportSink(store::JobStore& jobs, store::ArtifactStore& artifacts,
                       const plan::JobCatalog& catalog, ManifestCache& manifests,
                       ResultReuse& reuse, StoredFn stored)
    : jobs_(jobs),
      artifacts_(artifacts),
      catalog_(catalog),
      manifests_(manifests),
      reuse_(reuse),
      stored_(std::move(stored)) {}

absl::StatusOr<v1::ReportResultsResponse> ReportSink::Report(const v1::ReportHeader& header,
                                                             std::string_view data) {
  HC_RETURN_IF_ERROR(CheckTransfer(header, data));
  HC_ASSIGN_OR_RETURN(const store::Stage stage_id, store::ParseStage(header.stage()));
  HC_ASSIGN_OR_RETURN(const v1::Job job, jobs_.GetJob(header.job()));
  HC_ASSIGN_OR_RETURN(const store::StageRecord stage, jobs_.GetStage(header.job(), stage_id));
  HC_ASSIGN_OR_RETURN(const v1::UnitRange range, plan::RangeOfUnit(stage.plan, header.unit()));

  // A resend is common after a lost answer: it costs a look.
  HC_ASSIGN_OR_RETURN(const std::vector<store::ChunkRecord> there,
                      jobs_.ListChunks(header.job(), stage_id, header.unit(), 1));
  if (!there.empty() && there.front().unit == header.unit()) {
    return Answer(v1::ReportResultsResponse::DUPLICATE);
  }

  HC_ASSIGN_OR_RETURN(const CheckedChunk checked, Check(job, stage, range, data));
  HC_ASSIGN_OR_RETURN(const std::string digest, artifacts_.Put(data));
  HC_ASSIGN_OR_RETURN(const store::StoredChunk stored,
                      jobs_.StoreChunk(header.task(), header.attempt(), header.unit(), digest,
                                       static_cast<int64_t>(data.size()), checked.counts));
  if (stored.outcome == store::StoreOutcome::kDuplicate) {
    return Answer(v1::ReportResultsResponse::DUPLICATE);
  }
  if (stage_id != store::Stage::kPrepare) {
    if (job.provenance().device_kind().empty()) KeepRunInfo(job.name(), checked.run);
    KeepKeys(job, stage, range, digest, checked.run);
  }
  if (stored_) stored_(header.job(), stage_id, header.unit());
  return Answer(v1::ReportResultsResponse::STORED);
}

absl::StatusOr<CheckedChunk> ReportSink::Check(const v1::Job& job, const store::StageRecord& stage,
                                               const v1::UnitRange& range, std::string_view data) {
  const absl::StatusOr<plan::ModelFacts> model =
      catalog_.FindModel(format::WorkloadOf(job).model());
  if (!model.ok()) return Gone(model.status(), "model");
  if (stage.stage == store::Stage::kPrepare) return CheckManifestChunk(data, model->config);
  const absl::StatusOr<std::shared_ptr<const v1::Manifest>> manifest =
      manifests_.Get(stage.manifest_digest);
  if (!manifest.ok()) return Gone(manifest.status(), "manifest");
  if (stage.stage == store::Stage::kScore) {
    return CheckScoreChunk(data, range, model->config, **manifest);
  }
  return CheckAblateChunk(data, range, stage.plan, model->config, **manifest);
}

void ReportSink::KeepKeys(const v1::Job& job, const store::StageRecord& stage,
                          const v1::UnitRange& range, const std::string& digest,
                          const v1::RunInfo& run) {
  const auto manifest = manifests_.Get(stage.manifest_digest);
  absl::Status kept = manifest.status();
  if (kept.ok()) kept = reuse_.Keep(job, stage, range, **manifest, digest, run);
  // The unit is stored: it will be computed again where it could have been found, that is all.
  if (!kept.ok()) {
    spdlog::warn("unit {} of {} will not be reused: {}", range.unit(), job.name(), kept.ToString());
  }
}

void ReportSink::KeepRunInfo(const std::string& job, const v1::RunInfo& run) {
  v1::Provenance provenance;
  provenance.set_dtype(run.dtype());
  provenance.set_device_kind(run.device_kind());
  provenance.set_threads(run.threads());
  // The unit is stored: a report must not fail for this. The next unit tries again.
  const absl::Status set = jobs_.SetProvenance(job, provenance);
  if (!set.ok()) spdlog::warn("provenance of {}: {}", job, set.ToString());
}

}  // namespace headcount::queue
