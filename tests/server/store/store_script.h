// A job's whole life as calls to a JobStore, with what was acknowledged on the way, for tests that
// break the storage under it: afterwards all that was acknowledged must be there, and nothing half
// done. Not thread-safe.

#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/store/job_store.h"

namespace headcount::store {

class StoreScript {
 public:
  static constexpr int kJobs = 2;
  static constexpr int kUnits = 4;

  // Creates jobs, plans, leases, stores every unit, appends events and finishes. A call that fails
  // is made once more when `retry`; then it must be OK or show that it was done. Without `retry`
  // the rest of that job is left out.
  void Run(JobStore& store, bool retry);

  // Expects everything acknowledged in `store`, all or nothing of the rest.
  void ExpectKept(JobStore& store) const;
  // Expects that every job has succeeded.
  void ExpectWhole(JobStore& store) const;

  const std::vector<absl::Status>& failures() const { return failures_; }

 private:
  struct Acknowledged {
    bool created = false;
    bool planned = false;
    bool event = false;
    int attempt = 0;
    std::set<int64_t> units;
    bool succeeded = false;
  };

  bool Do(bool retry, const std::function<absl::Status()>& call,
          const std::function<bool(const absl::Status&)>& done_before);
  void RunJob(JobStore& store, const std::string& name, Acknowledged& known, bool retry);

  std::map<std::string, Acknowledged> jobs_;
  std::vector<absl::Status> failures_;
};

}  // namespace headcount::store
