// See process_launcher.h.

#include "server/launch/process_launcher.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/launch/worker_process.h"

namespace headcount::server {

ProcessLauncher::ProcessLauncher(std::vector<WorkerCommand> commands, Clock& clock, Events events,
                                 LauncherOptions options)
    : clock_(clock), events_(std::move(events)), options_(options) {
  for (WorkerCommand& command : commands) {
    Slot slot;
    slot.command = std::move(command);
    slot.backoff = options_.first_backoff;
    slots_.push_back(std::move(slot));
  }
}

ProcessLauncher::~ProcessLauncher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProcessLauncher::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void ProcessLauncher::Loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    for (Slot& slot : slots_) Look(slot, clock_.Monotonic());
    changed_.wait_for(lock, options_.poll);
  }
}

void ProcessLauncher::Look(Slot& slot, Clock::Duration now) {
  if (slot.child != 0) {
    if (const auto end = PollProcess(slot.child)) Ended(slot, now, end->description, end->clean);
    return;
  }
  if (slot.down || now < slot.next_start) return;
  if (IsLocked(slot.command.lock)) {
    if (!slot.found) spdlog::info("worker {}: runs already, found again", slot.command.id);
    slot.found = true;
    return;
  }
  if (slot.found) {
    slot.found = false;
    Ended(slot, now, "it gave up its lock", false);
    return;
  }
  const auto pid = StartProcess(slot.command.arguments, slot.command.log);
  if (pid.ok()) {
    slot.child = *pid;
    slot.started = now;
    slot.last_error.clear();
    spdlog::info("worker {}: started as process {}, log {}", slot.command.id, slot.child,
                 slot.command.log);
    return;
  }
  const std::string error(pid.status().message());
  if (error != slot.last_error) spdlog::error("worker {}: {}", slot.command.id, error);
  slot.last_error = error;
  slot.next_start = now + slot.backoff;
  slot.backoff = std::min(slot.backoff * 2, options_.longest_backoff);
}

void ProcessLauncher::Ended(Slot& slot, Clock::Duration now, const std::string& detail,
                            bool clean) {
  const bool was_child = std::exchange(slot.child, 0) != 0;
  if (was_child && now - slot.started >= options_.settled) slot.backoff = options_.first_backoff;
  slot.down = clean && events_.drained && events_.drained(slot.command.id);
  slot.next_start = now + slot.backoff;
  spdlog::warn("worker {}: ended, {}; {}", slot.command.id, detail,
               slot.down ? "it was drained and stays down" : "it is started again");
  slot.backoff = std::min(slot.backoff * 2, options_.longest_backoff);
  if (events_.died) events_.died(slot.command.id, detail);
}

void ProcessLauncher::Stop(Clock::Duration grace) {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (Slot& slot : slots_) {
    if (slot.child == 0 && IsLocked(slot.command.lock)) {
      // The lock is held, so the process that wrote its id there is that of the worker.
      slot.found = true;
      if (const auto owner = LockOwner(slot.command.lock)) kill(*owner, SIGTERM);
    }
    if (slot.child != 0) kill(slot.child, SIGTERM);
  }
  if (WaitForAll(grace)) return;
  for (Slot& slot : slots_) {
    if (slot.child == 0) continue;
    spdlog::warn("worker {}: did not stop, killed", slot.command.id);
    kill(slot.child, SIGKILL);
  }
  WaitForAll(std::chrono::seconds(2));
}

bool ProcessLauncher::WaitForAll(Clock::Duration grace) {
  const Clock::Duration deadline = clock_.Monotonic() + grace;
  std::unique_lock lock(mutex_);
  while (true) {
    bool running = false;
    for (Slot& slot : slots_) {
      if (slot.child != 0 && PollProcess(slot.child)) slot.child = 0;
      if (slot.found && !IsLocked(slot.command.lock)) slot.found = false;
      running |= slot.child != 0 || slot.found;
    }
    if (!running) return true;
    if (clock_.Monotonic() >= deadline) return false;
    changed_.wait_for(lock, options_.poll);
  }
}

std::vector<int> ProcessLauncher::Pids() const {
  std::lock_guard lock(mutex_);
  std::vector<int> out;
  for (const Slot& slot : slots_) {
    int pid = slot.child;
    if (slot.found) pid = LockOwner(slot.command.lock).value_or(0);
    out.push_back(pid);
  }
  return out;
}

}  // namespace headcount::server
