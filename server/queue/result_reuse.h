// Equal work of different jobs is computed once: what the rows of each stored chunk were computed
// from is kept as a key, and a new stage takes from it the units whose rows are all there.
//
// The key of a rule over a block of samples: numerics version, project, model digest, dtype,
// everything the job says but which rules and how many documents it runs, the samples' ids and
// tokens, and the rule with its threshold resolved; a score stage has the list of measurements in
// the place of the rule. Not in it: the place of the rule in its job, so that a rule is found
// whatever stood beside it. Results of one kind of device are not mixed with those of another.
//
// Called by the report sink (Keep, for every stored unit) and by the job's flow when it adds a
// stage (Find). Thread-safe. Errors: those of store and catalogue; a chunk that cannot be read or
// does not fit is computed again instead.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "headcount/v1/job.pb.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/plan/job_catalog.h"
#include "server/plan/job_flow.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::queue {

class ResultReuse {
 public:
  // Nothing is owned.
  ResultReuse(store::JobStore& jobs, store::ArtifactStore& artifacts,
              const plan::JobCatalog& catalog);

  // The unit that covers `range` is stored under `digest`; `run` is how it was computed.
  absl::Status Keep(const v1::Job& job, const store::StageRecord& stage, const v1::UnitRange& range,
                    const v1::Manifest& manifest, const std::string& digest,
                    const v1::RunInfo& run);

  // What is there of a stage that is about to be added; its chunks are on disk when it returns.
  absl::StatusOr<plan::Reused> Find(const v1::Job& job, const store::StageRecord& stage,
                                    const v1::Manifest& manifest);

 private:
  store::JobStore& jobs_;
  store::ArtifactStore& artifacts_;
  const plan::JobCatalog& catalog_;
};

}  // namespace headcount::queue
