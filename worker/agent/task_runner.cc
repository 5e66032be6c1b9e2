// See task_runner.h.

#include "worker/agent/task_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/numerics_version.h"
#include "spdlog/spdlog.h"
#include "worker/agent/chunk_builder.h"
#include "worker/agent/unit_builder.h"

namespace headcount::agent {
namespace {

double Seconds(Clock::Duration time) { return std::chrono::duration<double>(time).count(); }

class CountBatches : public engine::BatchObserver {
 public:
  explicit CountBatches(const std::function<void(int64_t)>& told) : told_(told) {}
  void OnBatch(int, int64_t) override { told_(++batches_); }

 private:
  const std::function<void(int64_t)>& told_;
  int64_t batches_ = 0;
};

}  // namespace

TaskRunner::TaskRunner(Options options, v1::WorkerService::StubInterface* stub,
                       EngineFactory engines, Preparer prepare, Clock& clock)
    : options_(std::move(options)),
      engines_(std::move(engines)),
      prepare_(std::move(prepare)),
      clock_(clock),
      samples_(stub) {}

std::string TaskRunner::loaded_model() const {
  std::lock_guard lock(mutex_);
  return loaded_model_;
}

void TaskRunner::UnloadModel() {
  loaded_ = {};
  std::lock_guard lock(mutex_);
  loaded_model_.clear();
}

absl::Status TaskRunner::Run(const v1::Task& task, StopSignal& stop, const TaskEvents& events) {
  if (task.stage() == "prepare") return RunPrepare(task, stop, events);
  if (task.stage() == "score" || task.stage() == "ablate") return RunUnits(task, stop, events);
  return absl::UnimplementedError(
      absl::StrCat("stage: this worker does not know \"", task.stage(), "\""));
}

absl::Status TaskRunner::RunPrepare(const v1::Task& task, StopSignal& stop,
                                    const TaskEvents& events) {
  events.running();
  const Clock::Duration begin = clock_.Monotonic();
  HC_ASSIGN_OR_RETURN(std::string manifest,
                      prepare_(task.workload(), stop.flag(),
                               [&events](int64_t done, int64_t) { events.batches(done); }));
  const double seconds = Seconds(clock_.Monotonic() - begin);
  if (!events.computed({task.first_unit(), std::move(manifest), seconds, 0})) {
    return absl::CancelledError("stopped");
  }
  return absl::OkStatus();
}

absl::Status TaskRunner::EnsureLoaded(const v1::Task& task) {
  const v1::DType dtype = task.workload().dtype();
  if (loaded_.engine != nullptr && loaded_model() == task.model() && loaded_for_ == dtype) {
    return absl::OkStatus();
  }
  UnloadModel();  // before the next one is loaded: two might not fit
  const Clock::Duration begin = clock_.Monotonic();
  auto loaded = engines_(task.model(), dtype);
  if (!loaded.ok()) return Annotate(loaded.status(), "model " + task.model());
  loaded_ = *std::move(loaded);
  loaded_for_ = dtype;
  spdlog::info("loaded {} ({}) in {:.1f} s", task.model(), loaded_.dtype,
               Seconds(clock_.Monotonic() - begin));
  std::lock_guard lock(mutex_);
  loaded_model_ = task.model();
  return absl::OkStatus();
}

absl::Status TaskRunner::RunUnits(const v1::Task& task, StopSignal& stop,
                                  const TaskEvents& events) {
  if (task.units().empty()) return absl::InvalidArgumentError("task.units: must not be empty");
  int64_t first = task.units(0).first_sample();
  int64_t end = first;
  for (const v1::UnitRange& range : task.units()) {
    first = std::min(first, range.first_sample());
    end = std::max(end, range.first_sample() + range.samples());
  }
  HC_RETURN_IF_ERROR(EnsureLoaded(task));
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const SampleRange> samples,
                      samples_.Get(task.manifest_digest(), first, end - first, stop));
  events.running();
  const std::vector<v1::ResolvedRule> rules(task.rules().begin(), task.rules().end());
  HC_ASSIGN_OR_RETURN(const std::vector<SharedMeans> means, BuildMeans(task.means()));
  CountBatches observer(events.batches);
  for (const v1::UnitRange& range : task.units()) {
    if (stop.stopped()) return absl::CancelledError("stopped");
    const bool generates = samples->generation.has_value() && task.stage() == "ablate";
    auto output = generates ? Generate(range, *samples, rules, means, stop, &observer)
                            : RunUnit(task, range, samples, rules, means, stop, &observer);
    if (absl::IsCancelled(output.status())) return output.status();
    if (!output.ok()) return Annotate(output.status(), absl::StrCat("unit ", range.unit()));
    if (!events.computed(*std::move(output))) return absl::CancelledError("stopped");
  }
  return absl::OkStatus();
}

v1::RunInfo TaskRunner::NewRun() const {
  v1::RunInfo run;
  run.set_numerics_version(catalog::kNumericsVersion);
  run.set_dtype(loaded_.dtype);
  run.set_device_kind(options_.device_kind);
  run.set_threads(options_.threads);
  return run;
}

absl::StatusOr<UnitOutput> TaskRunner::Generate(const v1::UnitRange& range,
                                                const SampleRange& samples,
                                                std::span<const v1::ResolvedRule> rules,
                                                std::span<const SharedMeans> means,
                                                StopSignal& stop, engine::BatchObserver* observer) {
  if (!loaded_.decode) return absl::InternalError("this worker's models come without a decoder");
  const Clock::Duration begin = clock_.Monotonic();
  HC_ASSIGN_OR_RETURN(GeneratedChunk chunk,
                      GenerateUnitChunk(*loaded_.engine, loaded_.decode, range, samples, rules,
                                        means, NewRun(), stop.flag(), observer));
  const double seconds = Seconds(clock_.Monotonic() - begin);
  rates_.Add(seconds, chunk.tokens, chunk.rows);
  return UnitOutput{range.unit(), std::move(chunk.data), seconds, chunk.tokens};
}

absl::StatusOr<UnitOutput> TaskRunner::RunUnit(const v1::Task& task, const v1::UnitRange& range,
                                               std::shared_ptr<const SampleRange> samples,
                                               std::span<const v1::ResolvedRule> rules,
                                               std::span<const SharedMeans> means, StopSignal& stop,
                                               engine::BatchObserver* observer) {
  const catalog::ModelConfig& model = loaded_.engine->config();
  const Clock::Duration begin = clock_.Monotonic();
  HC_ASSIGN_OR_RETURN(const BuiltUnit built,
                      BuildUnit(range, std::move(samples), rules, model, means, task.record()));
  HC_ASSIGN_OR_RETURN(const engine::UnitResult result,
                      loaded_.engine->Run(built.unit, stop.flag(), observer));
  v1::RunInfo run = NewRun();
  UnitOutput output;
  output.unit = range.unit();
  if (task.stage() == "score") {
    HC_ASSIGN_OR_RETURN(output.data, BuildScoreChunk(range, result, model, std::move(run)));
  } else {
    const Recording recording{task.record(), built.unit, loaded_.decode};
    HC_ASSIGN_OR_RETURN(output.data,
                        BuildAblateChunk(range, result, model, std::move(run), &recording));
  }
  output.seconds = Seconds(clock_.Monotonic() - begin);
  output.tokens = result.tokens;
  rates_.Add(output.seconds, result.tokens, static_cast<int64_t>(built.unit.rows.size()));
  return output;
}

}  // namespace headcount::agent
