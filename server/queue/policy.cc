// See policy.h.

#include "server/queue/policy.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace headcount::queue {
namespace {

using store::RunnableStage;
using store::Stage;

struct Key {
  bool failed_here;  // and another worker could take it
  bool needs_model;  // false: a prepare stage
  int priority;
  double over_share;  // the owner's usage where it is over the least by more than the slack, else 0
  bool patient;       // has not waited too long
  Clock::Duration waited;  // where not patient
  int affinity;
  size_t age;  // place in the view, which is oldest first

  auto AsTuple() const {
    return std::tuple(failed_here, needs_model, -priority, over_share, patient, -waited, affinity,
                      age);
  }
};

double UsageOf(const store::QueueView& view, const std::string& owner) {
  const auto usage = view.usage.find(owner);
  return usage == view.usage.end() ? 0 : usage->second;
}

bool Serves(Lane lane, const RunnableStage& stage, bool lost) {
  switch (lane) {
    case Lane::kAny:
      return true;
    case Lane::kUnits:
      return stage.stage != Stage::kPrepare || lost;
    case Lane::kPrepare:
      return stage.stage == Stage::kPrepare && !lost;
  }
  return true;
}

// Whether this worker may have the stage now.
bool MayTake(const PolicyInput& input, const RunnableStage& stage) {
  const bool lost = input.lost.contains(stage.job);
  if (!Serves(input.worker.lane, stage, lost)) return false;
  return input.beside.empty() || (!lost && !input.lost.contains(input.beside));
}

bool OthersMayTake(const PolicyInput& input, const RunnableStage& stage) {
  const bool lost = input.lost.contains(stage.job);
  return std::any_of(input.others.begin(), input.others.end(),
                     [&](const PolicyWorker& other) { return Serves(other.lane, stage, lost); });
}

// 0: this worker has the model; 1: no worker has it; 2: another has.
int Affinity(const PolicyInput& input, const RunnableStage& stage) {
  if (stage.stage == Stage::kPrepare || stage.model == input.worker.loaded_model) return 0;
  const bool elsewhere = std::any_of(
      input.others.begin(), input.others.end(),
      [&stage](const PolicyWorker& other) { return other.loaded_model == stage.model; });
  return elsewhere ? 2 : 1;
}

// The least usage of the owners that compete: those of one class and priority.
std::map<std::pair<bool, int>, double> LeastUsage(const store::QueueView& view) {
  std::map<std::pair<bool, int>, double> least;
  for (const RunnableStage& stage : view.runnable) {
    const double usage = UsageOf(view, stage.owner);
    const auto [entry, added] =
        least.try_emplace({stage.stage != Stage::kPrepare, stage.priority}, usage);
    if (!added) entry->second = std::min(entry->second, usage);
  }
  return least;
}

int64_t UnitsFor(const RunnableStage& stage, const PolicyWorker& worker,
                 Clock::Duration task_target) {
  const int64_t available = stage.free_units.front().count;
  if (stage.stage == Stage::kPrepare || !(worker.rows_per_second > 0)) return 1;
  const double seconds = std::chrono::duration<double>(task_target).count();
  const double rows_per_unit = static_cast<double>(std::max<int64_t>(1, stage.rows_per_unit));
  const double units = std::floor(seconds * worker.rows_per_second / rows_per_unit);
  if (units >= static_cast<double>(available)) return available;
  return std::max<int64_t>(1, static_cast<int64_t>(units));
}

}  // namespace

std::vector<const RunnableStage*> Rank(const PolicyInput& input,
                                       const PolicyParameters& parameters) {
  const auto least = LeastUsage(input.view);
  std::vector<std::pair<Key, const RunnableStage*>> keyed;
  for (size_t i = 0; i < input.view.runnable.size(); ++i) {
    const RunnableStage& stage = input.view.runnable[i];
    if (stage.free_units.empty() || !MayTake(input, stage)) continue;
    Key key{};
    key.failed_here = input.failed_here.contains(stage.job) && OthersMayTake(input, stage);
    key.needs_model = stage.stage != Stage::kPrepare;
    key.priority = stage.priority;
    const double usage = UsageOf(input.view, stage.owner);
    const double allowed = least.at({key.needs_model, stage.priority}) + parameters.share_slack;
    key.over_share = usage > allowed ? usage : 0;
    const auto waited = input.waited.find(stage.job);
    key.patient = waited == input.waited.end() || waited->second <= parameters.affinity_wait;
    if (!key.patient) key.waited = waited->second;
    key.affinity = Affinity(input, stage);
    key.age = i;
    keyed.emplace_back(key, &stage);
  }
  std::sort(keyed.begin(), keyed.end(),
            [](const auto& a, const auto& b) { return a.first.AsTuple() < b.first.AsTuple(); });
  std::vector<const RunnableStage*> ranked;
  ranked.reserve(keyed.size());
  for (const auto& [key, stage] : keyed) ranked.push_back(stage);
  return ranked;
}

std::optional<store::Assignment> ChooseTask(const PolicyInput& input,
                                            const PolicyParameters& parameters) {
  const std::vector<const RunnableStage*> ranked = Rank(input, parameters);
  if (ranked.empty()) return std::nullopt;
  const RunnableStage& stage = *ranked.front();
  return store::Assignment{.job = stage.job,
                           .stage = stage.stage,
                           .first_unit = stage.free_units.front().first,
                           .unit_count = UnitsFor(stage, input.worker, parameters.task_target),
                           .worker = input.worker.id};
}

}  // namespace headcount::queue
