// Jobs that are made of other jobs: a kind whose planner names children (planners.h) has them
// created under its own name and owner, waits for all of them, and ends as they end. The job flow
// calls it; children are ordinary jobs, found by their parent's name and their number.
//
// A child that fails or is cancelled fails its parent; cancelling the parent cancels what of its
// children has not ended. Thread-safe; calls for one parent must not overlap (JobFlow sees to it).
// Errors: the store's. Repeating a call is safe: it does what is still to do.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "headcount/v1/job.pb.h"
#include "server/plan/planners.h"
#include "server/store/job_store.h"

namespace headcount::plan {

class ChildJobs {
 public:
  // Not owned. `post` is told of jobs that want a turn of the flow; it must not call back.
  ChildJobs(store::JobStore& jobs, std::function<void(const std::string& job)> post);

  // Creates the children that are missing and need not wait. True: all have succeeded. What ends
  // the parent with an error (CHILD_FAILED, CHILD_CANCELLED, CHILD_DELETED) is in `failure`, which
  // else is OK.
  absl::StatusOr<bool> Advance(const v1::Job& parent, const std::vector<ChildJob>& children,
                               absl::Status* failure);
  // Asks every child that has not ended to end.
  absl::Status Cancel(const v1::Job& parent, size_t children);

 private:
  store::JobStore& jobs_;
  const std::function<void(const std::string&)> post_;
};

}  // namespace headcount::plan
