// See agent.h.

#include "worker/agent/agent.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/catalog/numerics_version.h"
#include "common/format/rpc_status.h"
#include "common/rpc/grpc_status.h"
#include "spdlog/spdlog.h"
#include "worker/agent/call_deadline.h"

namespace headcount::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kCallDeadline{25};     // the server holds a call for 10 s at most
constexpr std::chrono::seconds kLastCallDeadline{1};  // while draining: the server may hold it too
constexpr std::chrono::seconds kLongestPause{10};     // between calls, where the lease says nothing
constexpr milliseconds kShortestPause{20};  // a server that never holds must not be flooded

bool IsOver(v1::CurrentTask::Phase phase) {
  return phase == v1::CurrentTask::DONE || phase == v1::CurrentTask::FAILED ||
         phase == v1::CurrentTask::RELEASED;
}

// The server refused this worker itself; asking again gives the same answer.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

milliseconds ToMilliseconds(const google::protobuf::Duration& duration) {
  return milliseconds(duration.seconds() * 1000 + duration.nanos() / 1'000'000);
}

}  // namespace

Agent::Agent(AgentOptions options, v1::WorkerService::StubInterface* stub, EngineFactory engines,
             Preparer prepare, Clock& clock)
    : options_(std::move(options)),
      stub_(stub),
      clock_(clock),
      runner_({options_.device.kind(), options_.device.threads()}, stub, std::move(engines),
              std::move(prepare), clock) {}

Agent::~Agent() = default;

void Agent::Drain() {
  std::lock_guard lock(mutex_);
  if (draining_) return;
  draining_ = true;
  drain_began_ = clock_.Monotonic();
  if (current_ != nullptr) StopLocked(*current_, StopReason::kDrain);
  ChangedLocked();
}

absl::Status Agent::Run() {
  reporter_ = std::make_unique<Reporter>(
      stub_, options_.result_bytes,
      [this](const PendingChunk& chunk, const absl::Status& status) { OnReported(chunk, status); });
  last_contact_ = clock_.Monotonic();
  std::jthread compute([this] { ComputeLoop(); });

  absl::Status end;
  Backoff backoff;
  while (!MayLeave()) {
    Reported reported;
    const v1::SynchronizeRequest request = MakeRequest(&reported);
    v1::SynchronizeResponse response;
    const absl::Status status = Call(request, reported.version, &response);
    milliseconds pause;
    if (status.ok()) {
      last_contact_ = clock_.Monotonic();
      backoff.Reset();
      Follow(reported, response);
      milliseconds longest = kLongestPause;
      if (reported.lease != nullptr && reported.lease->task.has_lease_duration()) {
        longest = ToMilliseconds(reported.lease->task.lease_duration()) / 3;
      }
      pause = std::clamp<milliseconds>(ToMilliseconds(response.next_sync_in()), kShortestPause,
                                       std::max(longest, kShortestPause));
    } else if (absl::IsCancelled(status) && Changed(reported.version)) {
      pause = milliseconds(0);  // interrupted, to tell the server
    } else {
      if (IsFinal(status)) {
        end = Annotate(status, "the server refuses this worker");
        break;
      }
      const bool given_back = reported.lease == nullptr || reported.ended;
      if (request.draining() && (given_back || absl::IsUnavailable(status))) break;
      if (IsOrphan()) {
        end = absl::DeadlineExceededError(absl::StrCat(
            "no server for ", options_.orphan_exit.count() / 1000, " s: ", status.ToString()));
        break;
      }
      pause = backoff.Next();
      spdlog::warn("cannot synchronise with the server: {}", status.ToString());
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [&] { return version_ != reported.version; });
  }

  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    if (current_ != nullptr) StopLocked(*current_, StopReason::kLost);
    changed_.notify_all();
  }
  compute.join();
  reporter_.reset();
  return end;
}

v1::SynchronizeRequest Agent::MakeRequest(Reported* reported) {
  v1::SynchronizeRequest request;
  request.set_worker(options_.worker);
  request.set_instance(options_.instance);
  request.set_lane(options_.lane);
  *request.mutable_device() = options_.device;
  request.set_loaded_model(runner_.loaded_model());
  request.set_numerics_version(catalog::kNumericsVersion);
  request.set_version(options_.version);
  request.set_tokens_per_second(runner_.rates().tokens_per_second());
  request.set_rows_per_second(runner_.rates().rows_per_second());
  std::lock_guard lock(mutex_);
  request.set_draining(draining_);
  reported->version = version_;
  if (current_ == nullptr) return request;
  reported->lease = current_;
  reported->ended = IsOver(current_->phase);
  v1::CurrentTask* task = request.mutable_task();
  task->set_task(current_->task.name());
  task->set_attempt(current_->task.attempt());
  task->set_phase(current_->phase);
  task->set_units_done(current_->units_done);
  task->set_batches_done(current_->batches_done);
  if (current_->phase == v1::CurrentTask::FAILED) {
    *task->mutable_error() = format::ToRpcStatus(current_->error);
  }
  return request;
}

// CANCELLED when something changed meanwhile that the server should hear of before it answers.
absl::Status Agent::Call(const v1::SynchronizeRequest& request, uint64_t version,
                         v1::SynchronizeResponse* response) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(request.draining() ? kLastCallDeadline : kCallDeadline));
  {
    std::lock_guard lock(mutex_);
    if (version_ != version) return absl::CancelledError("changed");
    calling_ = &context;
  }
  const grpc::Status status = stub_->Synchronize(&context, request, response);
  std::lock_guard lock(mutex_);
  calling_ = nullptr;
  return rpc::FromGrpc(status);
}

void Agent::Follow(const Reported& reported, const v1::SynchronizeResponse& response) {
  std::lock_guard lock(mutex_);
  if (reported.ended && current_ == reported.lease) current_ = nullptr;
  const bool is_current = current_ != nullptr && current_ == reported.lease;
  switch (response.desired_case()) {
    case v1::SynchronizeResponse::kRun: {
      // For a task that was reported the answer carries no units. If it ended meanwhile, the next
      // call says so and gets the task whole.
      const v1::Task& task = response.run();
      if (reported.lease != nullptr && task.name() == reported.lease->task.name() &&
          task.attempt() == reported.lease->task.attempt()) {
        return;
      }
      if (is_current) StopLocked(*current_, StopReason::kLost);
      if (!draining_) StartLocked(task);
      return;
    }
    case v1::SynchronizeResponse::kCancel:
      if (is_current && response.cancel().task() == current_->task.name()) {
        StopLocked(*current_, StopReason::kCancel);
      }
      return;
    case v1::SynchronizeResponse::kDrain:
      if (draining_) return;
      spdlog::info("the server drains this worker: {}", response.drain().reason());
      draining_ = true;
      drain_began_ = clock_.Monotonic();
      if (current_ != nullptr) StopLocked(*current_, StopReason::kDrain);
      ChangedLocked();
      return;
    case v1::SynchronizeResponse::kIdle:
    case v1::SynchronizeResponse::DESIRED_NOT_SET:
      if (!is_current) return;
      spdlog::warn("the lease of {} is gone", current_->task.name());
      StopLocked(*current_, StopReason::kLost);
      current_ = nullptr;
      return;
  }
}

void Agent::StartLocked(const v1::Task& task) {
  current_ = std::make_shared<Lease>();
  current_->task = task;
  spdlog::info("task {} attempt {}: {} unit {} to {}", task.name(), task.attempt(), task.stage(),
               task.first_unit(), task.first_unit() + task.unit_count() - 1);
  ChangedLocked();
}

bool Agent::Changed(uint64_t version) {
  std::lock_guard lock(mutex_);
  return version_ != version;
}

bool Agent::MayLeave() {
  std::lock_guard lock(mutex_);
  if (!draining_) return false;
  return current_ == nullptr || clock_.Monotonic() - drain_began_ > options_.drain_limit;
}

bool Agent::IsOrphan() const { return clock_.Monotonic() - last_contact_ > options_.orphan_exit; }

void Agent::ComputeLoop() {
  LeasePtr last;
  bool loaded = false;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto something_to_do = [&] {
      return closing_ || (current_ != nullptr && current_ != last);
    };
    if (!loaded) {
      changed_.wait(lock, something_to_do);
    } else if (!changed_.wait_for(lock, options_.idle_unload, something_to_do)) {
      lock.unlock();
      spdlog::info("unloading {}: not used for {} s", runner_.loaded_model(),
                   options_.idle_unload.count() / 1000);
      runner_.UnloadModel();
      loaded = false;
      lock.lock();
      ChangedLocked();  // tasks of that model need not wait for this worker any more
      continue;
    }
    if (closing_) return;
    last = current_;
    lock.unlock();
    Compute(last);
    loaded = !runner_.loaded_model().empty();
    lock.lock();
  }
}

void Agent::Compute(const LeasePtr& lease) {
  TaskEvents events;
  events.running = [this, &lease] {
    std::lock_guard lock(mutex_);
    lease->phase = v1::CurrentTask::RUNNING;
    ChangedLocked();
  };
  events.batches = [this, &lease](int64_t batches) {
    std::lock_guard lock(mutex_);
    lease->batches_done = std::max(lease->batches_done, batches);
  };
  events.computed = [this, &lease](UnitOutput output) {
    PendingChunk chunk;
    chunk.header.set_worker(options_.worker);
    chunk.header.set_task(lease->task.name());
    chunk.header.set_attempt(lease->task.attempt());
    chunk.header.set_job(lease->task.job());
    chunk.header.set_stage(lease->task.stage());
    chunk.header.set_unit(output.unit);
    chunk.header.set_seconds(output.seconds);
    chunk.header.set_tokens(output.tokens);
    chunk.data = std::move(output.data);
    chunk.stop = lease->stop;
    {
      std::lock_guard lock(mutex_);
      ++lease->unsent;
    }
    if (reporter_->Push(std::move(chunk))) return true;
    std::lock_guard lock(mutex_);
    --lease->unsent;
    return false;
  };
  const Clock::Duration begin = clock_.Monotonic();
  const absl::Status status = runner_.Run(lease->task, *lease->stop, events);
  spdlog::info("task {}: {} after {:.1f} s; {:.0f} tokens/s", lease->task.name(),
               status.ok() ? "computed" : status.ToString(),
               std::chrono::duration<double>(clock_.Monotonic() - begin).count(),
               runner_.rates().tokens_per_second());

  std::lock_guard lock(mutex_);
  if (status.ok()) {
    lease->outcome = v1::CurrentTask::DONE;
  } else if (lease->stop->stopped()) {
    lease->outcome = v1::CurrentTask::RELEASED;
  } else {
    lease->outcome = v1::CurrentTask::FAILED;
    lease->error = status;
  }
  if (lease == current_) SettleLocked(*lease);
}

void Agent::OnReported(const PendingChunk& chunk, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  // A chunk of a lease that was dropped meanwhile concerns nobody.
  if (current_ == nullptr || current_->stop != chunk.stop) return;
  Lease& lease = *current_;
  --lease.unsent;
  if (status.ok()) {
    ++lease.units_done;
  } else if (absl::IsAborted(status) || absl::IsNotFound(status)) {
    spdlog::warn("{}: {}", lease.task.name(), status.ToString());
    StopLocked(lease, StopReason::kLost);
    current_ = nullptr;
    ChangedLocked();
    return;
  } else if (!absl::IsCancelled(status) && lease.error.ok()) {
    spdlog::error("unit {} of {} is refused: {}", chunk.header.unit(), lease.task.name(),
                  status.ToString());
    lease.error = Annotate(status, absl::StrCat("unit ", chunk.header.unit(), " is refused"));
    StopLocked(lease, StopReason::kCancel);
  }
  SettleLocked(lease);
}

void Agent::StopLocked(Lease& lease, StopReason reason) {
  lease.stop->Stop(reason);
  reporter_->Poke();
}

// A lease ends for the server when computing is over and nothing of it waits to be stored.
void Agent::SettleLocked(Lease& lease) {
  if (lease.outcome == v1::CurrentTask::PHASE_UNSPECIFIED || lease.unsent > 0) return;
  lease.phase = lease.outcome;
  if (!lease.error.ok()) lease.phase = v1::CurrentTask::FAILED;
  if (lease.error.ok() && lease.stop->reason() != StopReason::kNone &&
      lease.units_done < lease.task.unit_count()) {
    lease.phase = v1::CurrentTask::RELEASED;
  }
  ChangedLocked();
}

void Agent::ChangedLocked() {
  ++version_;
  if (calling_ != nullptr) calling_->TryCancel();
  changed_.notify_all();
}

}  // namespace headcount::agent
