// Appends curve_point events: a rule's accuracy and share so far, each time another eighth of its
// sample blocks is stored, and the final one when all are in. Computed from stored counts alone;
// the event's key (rule, eighth) makes each happen once, whoever asks and however often.
//
// Thread-safe; calls for one job must not overlap (JobFlow sees to it), or points may be skipped
// that a later call would have brought. Errors: the store's.

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "headcount/v1/job.pb.h"
#include "server/store/job_store.h"

namespace headcount::plan {

class CurveEvents {
 public:
  // Not owned.
  explicit CurveEvents(store::JobStore& jobs);

  // The points of the rules that `unit` covers; without it, of all rules of the stage.
  absl::Status Append(const v1::Job& job, const store::StageRecord& stage,
                      std::optional<int64_t> unit);
  // The job has ended.
  void Forget(const std::string& job);

 private:
  absl::Status AppendListed(const v1::Job& job, const store::StageRecord& stage);
  absl::Status AppendBlock(const v1::Job& job, const store::StageRecord& stage, int64_t rule_block);
  absl::Status AppendPoint(const std::string& job, const v1::CurvePointChanged& point, int eighth);

  store::JobStore& jobs_;
  std::mutex mutex_;
  // (job, shown rule) -> the eighth that is known to be stored. Saves a transaction a rule and
  // unit.
  std::map<std::pair<std::string, int>, int> stored_;
};

}  // namespace headcount::plan
