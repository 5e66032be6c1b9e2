// Takes a unit's chunk from a worker: checks it against the plan, puts its bytes on disk, stores
// its row, and tells the job's flow. Nothing of a chunk that fails a check is kept.
//
// Thread-safe. Errors, as the worker gets them: DATA_LOSS (the bytes are not those that were sent:
// send again); ABORTED (LEASE_LOST); INVALID_ARGUMENT (BAD_CHUNK) naming what does not fit the
// plan, which no retry helps; FAILED_PRECONDITION for a chunk of a newer format or a model that is
// no longer there; NOT_FOUND for an unknown job or stage; OUT_OF_RANGE for a unit the stage does
// not have; RESOURCE_EXHAUSTED (disk full) and UNAVAILABLE: send again later.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/plan/job_catalog.h"
#include "server/queue/chunk_check.h"
#include "server/queue/manifest_cache.h"
#include "server/queue/result_reuse.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::queue {

class ReportSink {
 public:
  // Told after a unit was stored (not for a duplicate), outside any lock.
  using StoredFn = std::function<void(const std::string& job, store::Stage stage, int64_t unit)>;

  // Nothing is owned.
  ReportSink(store::JobStore& jobs, store::ArtifactStore& artifacts,
             const plan::JobCatalog& catalog, ManifestCache& manifests, ResultReuse& reuse,
             StoredFn stored);

  // `data` is all bytes of the report.
  absl::StatusOr<v1::ReportResultsResponse> Report(const v1::ReportHeader& header,
                                                   std::string_view data);

 private:
  absl::StatusOr<CheckedChunk> Check(const v1::Job& job, const store::StageRecord& stage,
                                     const v1::UnitRange& range, std::string_view data);
  // What the unit was computed from, for later jobs.
  void KeepKeys(const v1::Job& job, const store::StageRecord& stage, const v1::UnitRange& range,
                const std::string& digest, const v1::RunInfo& run);
  void KeepRunInfo(const std::string& job, const v1::RunInfo& run);

  store::JobStore& jobs_;
  store::ArtifactStore& artifacts_;
  const plan::JobCatalog& catalog_;
  ManifestCache& manifests_;
  ResultReuse& reuse_;
  const StoredFn stored_;
};

}  // namespace headcount::queue
