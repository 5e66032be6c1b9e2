// A WorkerService for tests of the agent: holds one desired state, keeps what is reported, and can
// refuse, forget or go away on command. Waits are for conditions, with a deadline.

#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/rpc/grpc_status.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.grpc.pb.h"

namespace headcount::agent {

class ScriptedServer final : public v1::WorkerService::Service {
 public:
  struct Report {
    v1::ReportHeader header;
    std::string data;
  };
  using UnitKey = std::tuple<std::string, std::string, int64_t>;  // job, stage, unit

  explicit ScriptedServer(v1::Manifest manifest) : manifest_(std::move(manifest)) {
    address_ = "unix:" + ::testing::TempDir() + "/scripted_" + std::to_string(getpid()) + ".sock";
    Start();
  }
  ~ScriptedServer() override { Stop(); }

  const std::string& address() const { return address_; }

  void Start() {
    {
      std::lock_guard lock(mutex_);
      down_ = false;
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    if (server_ == nullptr) return;
    {
      std::lock_guard lock(mutex_);
      down_ = true;
    }
    changed_.notify_all();
    server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
    server_->Wait();
    server_.reset();
  }

  // --- the script ---
  void Want(v1::SynchronizeResponse desired) {
    {
      std::lock_guard lock(mutex_);
      desired_ = std::move(desired);
    }
    changed_.notify_all();
  }
  void WantTask(const v1::Task& task) {
    v1::SynchronizeResponse desired;
    *desired.mutable_run() = task;
    Want(std::move(desired));
  }
  // What the next ReportResults calls answer instead of storing; then they store again.
  void AnswerReports(std::deque<grpc::Status> statuses) {
    std::lock_guard lock(mutex_);
    report_answers_ = std::move(statuses);
  }
  // Store the next report but answer as if the connection broke.
  void LoseNextAnswer() {
    std::lock_guard lock(mutex_);
    lose_answer_ = true;
  }

  // From now on a sample's tokens are not those of its digest.
  void DamageSample(int sample) {
    std::lock_guard lock(mutex_);
    manifest_.mutable_samples(sample)->set_suffix(0, 99);
  }

  // Hold also a call that reports the end of a task, as for an idle worker.
  void HoldEnds() {
    std::lock_guard lock(mutex_);
    hold_ends_ = true;
  }

  // --- what was seen ---
  bool WaitFor(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), condition);
  }
  std::map<UnitKey, Report> stored() const {
    std::lock_guard lock(mutex_);
    return stored_;
  }
  int reports() const {
    std::lock_guard lock(mutex_);
    return reports_;
  }
  int slices() const {
    std::lock_guard lock(mutex_);
    return slices_;
  }
  int duplicates() const {
    std::lock_guard lock(mutex_);
    return duplicates_;
  }
  bool Seen(const std::string& task, v1::CurrentTask::Phase phase) const {
    std::lock_guard lock(mutex_);
    for (const auto& request : requests_) {
      if (request.task().task() == task && request.task().phase() == phase) return true;
    }
    return false;
  }
  v1::SynchronizeRequest Latest() const {
    std::lock_guard lock(mutex_);
    return requests_.empty() ? v1::SynchronizeRequest() : requests_.back();
  }
  // The latest request in that phase; an empty one where there is none.
  v1::SynchronizeRequest Last(v1::CurrentTask::Phase phase) const {
    std::lock_guard lock(mutex_);
    for (auto it = requests_.rbegin(); it != requests_.rend(); ++it) {
      if (it->has_task() && it->task().phase() == phase) return *it;
    }
    return {};
  }

 private:
  static bool IsOver(v1::CurrentTask::Phase phase) {
    return phase == v1::CurrentTask::DONE || phase == v1::CurrentTask::FAILED ||
           phase == v1::CurrentTask::RELEASED;
  }
  // Whether the worker does already what is wanted, so that the call is held.
  bool AsReported(const v1::SynchronizeRequest& request) const {
    switch (desired_.desired_case()) {
      case v1::SynchronizeResponse::kRun:
        return request.task().task() == desired_.run().name() &&
               request.task().attempt() == desired_.run().attempt();
      case v1::SynchronizeResponse::kCancel:
      case v1::SynchronizeResponse::kDrain:
        return false;
      default:
        return !request.has_task() || (hold_ends_ && IsOver(request.task().phase()));
    }
  }

  grpc::Status Synchronize(grpc::ServerContext* context, const v1::SynchronizeRequest* request,
                           v1::SynchronizeResponse* response) override {
    std::unique_lock lock(mutex_);
    requests_.push_back(*request);
    if (IsOver(request->task().phase())) desired_.mutable_idle();
    changed_.notify_all();
    while (!down_ && !context->IsCancelled() && AsReported(*request)) {
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    *response = desired_;
    return grpc::Status::OK;
  }

  grpc::Status GetManifestSlice(grpc::ServerContext*, const v1::GetManifestSliceRequest* request,
                                grpc::ServerWriter<v1::ManifestSlice>* writer) override {
    std::lock_guard lock(mutex_);
    ++slices_;
    // A piece a sample, so that the reader has to join them.
    for (int64_t i = 0; i < request->samples(); ++i) {
      v1::ManifestSlice slice;
      const auto& sample = manifest_.samples(static_cast<int>(request->first_sample() + i));
      if (i == 0 || manifest_.samples(static_cast<int>(request->first_sample() + i - 1)).group() !=
                        sample.group()) {
        *slice.add_groups() = manifest_.groups(static_cast<int>(sample.group()));
      }
      *slice.add_samples() = sample;
      writer->Write(slice);
    }
    return grpc::Status::OK;
  }

  grpc::Status ReportResults(grpc::ServerContext*,
                             grpc::ServerReader<v1::ReportResultsRequest>* reader,
                             v1::ReportResultsResponse* response) override {
    Report report;
    v1::ReportResultsRequest part;
    while (reader->Read(&part)) {
      if (part.has_header()) {
        report.header = part.header();
      } else {
        report.data += part.data();
      }
    }
    std::lock_guard lock(mutex_);
    ++reports_;
    changed_.notify_all();
    if (!report_answers_.empty()) {
      const grpc::Status answer = report_answers_.front();
      report_answers_.pop_front();
      return answer;
    }
    const UnitKey key{report.header.job(), report.header.stage(), report.header.unit()};
    const bool added = stored_.emplace(key, std::move(report)).second;
    if (!added) ++duplicates_;
    response->set_outcome(added ? v1::ReportResultsResponse::STORED
                                : v1::ReportResultsResponse::DUPLICATE);
    if (std::exchange(lose_answer_, false)) {
      return {grpc::StatusCode::UNAVAILABLE, "connection broke"};
    }
    return grpc::Status::OK;
  }

  v1::Manifest manifest_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  mutable std::recursive_mutex mutex_;  // conditions of WaitFor use the methods above
  std::condition_variable_any changed_;
  bool down_ = false;
  v1::SynchronizeResponse desired_;
  std::deque<grpc::Status> report_answers_;
  bool lose_answer_ = false;
  bool hold_ends_ = false;
  std::vector<v1::SynchronizeRequest> requests_;
  std::map<UnitKey, Report> stored_;
  int slices_ = 0;
  int reports_ = 0;
  int duplicates_ = 0;
};

}  // namespace headcount::agent
