// See flow_runner.h.

#include "server/plan/flow_runner.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"

namespace headcount::plan {
namespace {

constexpr int kWholeJob = -1;

}  // namespace

FlowRunner::FlowRunner(JobFlow& flow, int threads) : flow_(flow) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

FlowRunner::~FlowRunner() { Stop(); }

void FlowRunner::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void FlowRunner::Post(const std::string& job) { Add({job, kWholeJob, 0}); }

void FlowRunner::PostUnit(const std::string& job, store::Stage stage, int64_t unit) {
  Add({job, static_cast<int>(stage), unit});
}

void FlowRunner::Tick() {
  std::set<std::string> again;
  {
    std::lock_guard lock(mutex_);
    again.swap(failed_);
  }
  for (const std::string& job : again) Post(job);
}

void FlowRunner::WaitIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || (queue_.empty() && running_.empty()); });
}

void FlowRunner::Add(Item item) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !waiting_.insert(item).second) return;
    queue_.push_back(std::move(item));
  }
  changed_.notify_all();
}

std::deque<FlowRunner::Item>::iterator FlowRunner::NextLocked() {
  return std::find_if(queue_.begin(), queue_.end(),
                      [this](const Item& item) { return !running_.contains(std::get<0>(item)); });
}

void FlowRunner::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || NextLocked() != queue_.end(); });
    if (stopping_) return;
    const auto next = NextLocked();
    const Item item = std::move(*next);
    queue_.erase(next);
    waiting_.erase(item);
    const std::string& job = std::get<0>(item);
    running_.insert(job);
    lock.unlock();
    const absl::Status status = Run(item);
    if (!status.ok()) spdlog::warn("{} will be planned again: {}", job, status.ToString());
    lock.lock();
    if (!status.ok()) failed_.insert(job);
    running_.erase(job);
    changed_.notify_all();
  }
}

absl::Status FlowRunner::Run(const Item& item) {
  const auto& [job, stage, unit] = item;
  if (stage == kWholeJob) return flow_.Advance(job);
  return flow_.UnitStored(job, static_cast<store::Stage>(stage), unit);
}

}  // namespace headcount::plan
