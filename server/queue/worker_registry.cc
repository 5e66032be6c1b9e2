// See worker_registry.h.

#include "server/queue/worker_registry.h"

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/numerics_version.h"

namespace headcount::queue {
namespace {

constexpr size_t kLongestId = 200;
constexpr Clock::Duration kForgotten = std::chrono::hours(1);

absl::Status CheckId(const char* field, const std::string& value) {
  if (!value.empty() && value.size() <= kLongestId) return absl::OkStatus();
  return InvalidField(field, value, absl::StrCat("must be 1 to ", kLongestId, " characters"));
}

absl::Status CheckCaller(const v1::SynchronizeRequest& request) {
  HC_RETURN_IF_ERROR(CheckId("worker", request.worker()));
  HC_RETURN_IF_ERROR(CheckId("instance", request.instance()));
  if (request.numerics_version() != catalog::kNumericsVersion) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("numerics_version: this server keeps results of version ",
                                       catalog::kNumericsVersion, ", the worker computes version ",
                                       request.numerics_version(), "; run the same build on both")),
                      "NUMERICS_VERSION");
  }
  return absl::OkStatus();
}

Lane LaneOf(const v1::SynchronizeRequest& request) {
  switch (request.lane()) {
    case v1::SynchronizeRequest::UNITS:
      return Lane::kUnits;
    case v1::SynchronizeRequest::PREPARE:
      return Lane::kPrepare;
    default:
      return Lane::kAny;
  }
}

absl::Status IdInUse(const Worker& worker) {
  return WithReason(
      absl::AlreadyExistsError(absl::StrCat("worker id ", worker.id, " is used by process ",
                                            worker.device.pid(), " on ", worker.device.host())),
      "WORKER_ID_IN_USE");
}

}  // namespace

absl::StatusOr<Worker*> WorkerRegistry::Register(const v1::SynchronizeRequest& request,
                                                 Clock::Duration now, bool* replaced) {
  HC_RETURN_IF_ERROR(CheckCaller(request));
  *replaced = false;
  Worker& worker = workers_[request.worker()];
  if (worker.instance != request.instance()) {
    if (!worker.instance.empty() && !worker.gone) return IdInUse(worker);
    *replaced = !worker.instance.empty();
    worker = Worker{.id = request.worker(), .instance = request.instance()};
  }
  worker.lane = LaneOf(request);
  worker.device = request.device();
  worker.loaded_model = request.loaded_model();
  worker.rows_per_second = request.rows_per_second();
  worker.tokens_per_second = request.tokens_per_second();
  worker.leaving = request.draining();
  worker.gone = false;
  worker.last_call = now;
  return &worker;
}

absl::StatusOr<Worker*> WorkerRegistry::FindHeld(const v1::SynchronizeRequest& request) {
  Worker* worker = Find(request.worker());
  if (worker == nullptr) return absl::UnavailableError("the worker is not registered: call again");
  if (worker->instance != request.instance()) return IdInUse(*worker);
  return worker;
}

Worker* WorkerRegistry::Find(const std::string& id) {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerRegistry::Beside(const Worker& worker) {
  for (auto& [id, other] : workers_) {
    if (id != worker.id && other.instance == worker.instance) return &other;
  }
  return nullptr;
}

std::vector<Worker*> WorkerRegistry::MarkSilent(Clock::Duration now, Clock::Duration term) {
  std::erase_if(workers_, [now](const auto& entry) {
    return entry.second.gone && now - entry.second.last_call > kForgotten;
  });
  std::vector<Worker*> went;
  for (auto& [id, worker] : workers_) {
    if (worker.gone || now - worker.last_call < term) continue;
    worker.gone = true;
    went.push_back(&worker);
  }
  return went;
}

std::vector<PolicyWorker> WorkerRegistry::Others(const std::string& id) const {
  std::vector<PolicyWorker> others;
  for (const auto& [other, worker] : workers_) {
    if (other == id || worker.gone || worker.leaving || worker.drain) continue;
    others.push_back({.id = other,
                      .lane = worker.lane,
                      .loaded_model = worker.loaded_model,
                      .rows_per_second = worker.rows_per_second});
  }
  return others;
}

std::vector<v1::WorkerInfo> WorkerRegistry::Infos() const {
  std::vector<v1::WorkerInfo> infos;
  std::map<std::string, const Worker*> preparing;  // by process
  for (const auto& [id, worker] : workers_) {
    if (worker.lane == Lane::kPrepare && !worker.gone && !worker.task.empty()) {
      preparing[worker.instance] = &worker;
    }
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.lane == Lane::kPrepare) continue;
    infos.push_back(InfoOf(worker));
    const auto beside = preparing.find(worker.instance);
    if (infos.back().state() != "idle" || beside == preparing.end()) continue;
    infos.back().set_state(InfoOf(*beside->second).state());
    infos.back().set_job(beside->second->job);
  }
  return infos;
}

double WorkerRegistry::RowsPerSecond(const std::string& job) const {
  double rate = 0;
  for (const auto& [id, worker] : workers_) {
    if (!worker.gone && worker.job == job) rate += worker.rows_per_second;
  }
  return rate;
}

v1::WorkerInfo InfoOf(const Worker& worker) {
  v1::WorkerInfo info;
  info.set_worker(worker.id);
  info.set_device(worker.device.kind() == "cpu"
                      ? worker.device.kind()
                      : absl::StrCat(worker.device.kind(), ":", worker.device.index()));
  info.set_loaded_model(worker.loaded_model);
  info.set_tokens_per_second(worker.tokens_per_second);
  if (worker.gone) {
    info.set_state("lost");
    return info;
  }
  info.set_job(worker.job);
  if (worker.drain || worker.leaving) {
    info.set_state("draining");
  } else if (worker.task.empty()) {
    info.set_state("idle");
  } else {
    info.set_state(worker.phase == v1::CurrentTask::RUNNING ? "running" : "starting");
  }
  return info;
}

}  // namespace headcount::queue
