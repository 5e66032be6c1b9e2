// See flow_runner.h.

#include "server/plan/flow_runner.h"

#include <string>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"

namespace headcount::plan {
namespace {

constexpr int kWholeJob = -1;

}  // namespace

FlowRunner::FlowRunner(JobFlow& flow) : flow_(flow), thread_([this] { Loop(); }) {}

FlowRunner::~FlowRunner() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
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
  changed_.wait(lock, [this] { return stopping_ || (queue_.empty() && !busy_); });
}

void FlowRunner::Add(Item item) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !waiting_.insert(item).second) return;
    queue_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void FlowRunner::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    waiting_.erase(item);
    busy_ = true;
    lock.unlock();
    const auto& [job, stage, unit] = item;
    const absl::Status status = stage == kWholeJob
                                    ? flow_.Advance(job)
                                    : flow_.UnitStored(job, static_cast<store::Stage>(stage), unit);
    if (!status.ok()) spdlog::warn("{} will be planned again: {}", job, status.ToString());
    lock.lock();
    if (!status.ok()) failed_.insert(job);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace headcount::plan
