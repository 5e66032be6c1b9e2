// Does the work of one task: prepare, score or ablate. Keeps the model that it loaded last, because
// the next task is likely to need it, and measures how fast it goes.
//
// Run is called by the compute thread alone; loaded_model and the rates may be read from any
// thread. Errors: those of preparing, loading and running, with the unit they are about; CANCELLED
// when stopped.

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "headcount/v1/worker_service.grpc.pb.h"
#include "worker/agent/generation.h"
#include "worker/agent/rate_meter.h"
#include "worker/agent/sample_source.h"
#include "worker/agent/stop_signal.h"
#include "worker/agent/unit_builder.h"
#include "worker/engine/engine.h"

namespace headcount::agent {

struct LoadedEngine {
  std::unique_ptr<engine::Engine> engine;
  std::string dtype;  // as results name it: "float32", "bfloat16"
  Decoder decode;     // of the model's tokenizer; of stages that generate or record next tokens
};

// Loads a model of the catalogue on this worker's device; an unspecified dtype means the
// checkpoint's own.
using EngineFactory =
    std::function<absl::StatusOr<LoadedEngine>(const std::string& model, v1::DType dtype)>;

// The prepare stage: a workload to the framed manifest. `progress` counts documents.
using Preparer = std::function<absl::StatusOr<std::string>(
    const v1::Workload& workload, const engine::CancelFlag& cancel,
    const std::function<void(int64_t done, int64_t total)>& progress)>;

struct UnitOutput {
  int64_t unit = 0;
  std::string data;  // framed
  double seconds = 0;
  int64_t tokens = 0;
};

// What a running task tells the agent; all called from the compute thread.
struct TaskEvents {
  std::function<void()> running;                    // loading is over
  std::function<void(int64_t batches)> batches;     // done so far
  std::function<bool(UnitOutput output)> computed;  // false: stop
};

class TaskRunner {
 public:
  struct Options {
    std::string device_kind;  // "cpu" or "cuda"
    int threads = 0;
  };

  // Neither stub nor clock is owned.
  TaskRunner(Options options, v1::WorkerService::StubInterface* stub, EngineFactory engines,
             Preparer prepare, Clock& clock);

  absl::Status Run(const v1::Task& task, StopSignal& stop, const TaskEvents& events);

  // Frees the model; the accelerator is shared with people who do not use this service.
  void UnloadModel();

  std::string loaded_model() const;
  const RateMeter& rates() const { return rates_; }

 private:
  absl::Status RunPrepare(const v1::Task& task, StopSignal& stop, const TaskEvents& events);
  absl::Status RunUnits(const v1::Task& task, StopSignal& stop, const TaskEvents& events);
  absl::StatusOr<UnitOutput> Generate(const v1::UnitRange& range, const SampleRange& samples,
                                      std::span<const v1::ResolvedRule> rules,
                                      std::span<const SharedMeans> means, StopSignal& stop,
                                      engine::BatchObserver* observer);
  v1::RunInfo NewRun() const;
  absl::StatusOr<UnitOutput> RunUnit(const v1::Task& task, const v1::UnitRange& range,
                                     std::shared_ptr<const SampleRange> samples,
                                     std::span<const v1::ResolvedRule> rules,
                                     std::span<const SharedMeans> means, StopSignal& stop,
                                     engine::BatchObserver* observer);
  absl::Status EnsureLoaded(const v1::Task& task);

  const Options options_;
  const EngineFactory engines_;
  const Preparer prepare_;
  Clock& clock_;
  SampleSource samples_;
  RateMeter rates_;

  LoadedEngine loaded_;
  v1::DType loaded_for_ = v1::DTYPE_UNSPECIFIED;  // the dtype that was asked for
  mutable std::mutex mutex_;
  std::string loaded_model_;  // guarded by mutex_
};

}  // namespace headcount::agent
