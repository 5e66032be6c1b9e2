// Which work an idle worker gets next, and how much of it. A pure function of a view, the worker
// and parameters: no clock, no store, no state.
//
// In this order:
//   1. prepare stages (short, no model) before all others
//   2. higher priority
//   3. fair share: the owners whose decayed accelerator-seconds are within `share_slack` of the
//      least; so a user who waits is served after at most that much of another's time
//   4. jobs that nobody has worked on for `affinity_wait`, longest first
//   5. model affinity: the model this worker has loaded, then one that no other worker has loaded
//   6. age, oldest first
// A job whose work just failed on this worker comes last where another worker could take it.
//
// A worker process may have two lanes, one for its device and one for prepare stages. Whatever ends
// the process ends the work of both, so a job whose last lease was lost gets the process for
// itself, and in the device's lane: the fault then shows whose it is.

#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "server/store/job_store.h"

namespace headcount::queue {

enum class Lane { kAny, kUnits, kPrepare };

struct PolicyWorker {
  std::string id;
  Lane lane = Lane::kAny;
  std::string loaded_model;    // or empty
  double rows_per_second = 0;  // measured; 0: unknown
};

struct PolicyParameters {
  Clock::Duration task_target = std::chrono::seconds(20);
  double share_slack = 60;  // accelerator-seconds
  Clock::Duration affinity_wait = std::chrono::seconds(60);
};

struct PolicyInput {
  const store::QueueView& view;
  const PolicyWorker& worker;
  const std::vector<PolicyWorker>& others;  // other live workers
  // How long each runnable job has had no worker; a job that is missing has just been served.
  const std::map<std::string, Clock::Duration>& waited;
  const std::set<std::string>& failed_here;  // jobs whose last lease failed on this worker
  const std::set<std::string>& lost;         // the same on any worker
  const std::string& beside;  // the job that the process's other lane works on, or empty
};

// Consecutive free units of one stage that take this worker about `task_target`, at least one; one
// where its speed is unknown. Nothing when nothing can be run.
std::optional<store::Assignment> ChooseTask(const PolicyInput& input,
                                            const PolicyParameters& parameters);

// The jobs in the order in which this worker would get them: what queue positions are counted in.
std::vector<const store::RunnableStage*> Rank(const PolicyInput& input,
                                              const PolicyParameters& parameters);

}  // namespace headcount::queue
