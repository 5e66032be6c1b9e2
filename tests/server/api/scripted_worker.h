// A worker that speaks the real WorkerService over loopback and computes made-up chunks
// (tests/server/queue/fake_chunks.h). Its steps are public, so that tests can go wrong at any of
// them; Run() does all of them until it is told to stop.

#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/digest.h"
#include "common/catalog/numerics_version.h"
#include "common/format/frame.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "headcount/v1/worker_service.grpc.pb.h"
#include "tests/server/plan/manifests.h"
#include "tests/server/queue/fake_chunks.h"

namespace headcount::server {

class ScriptedWorker {
 public:
  explicit ScriptedWorker(const std::string& server, std::string id = "scripted",
                          int documents = 12)
      : id_(std::move(id)),
        manifest_(plan::Pairs(documents)),
        stub_(v1::WorkerService::NewStub(rpc::MakeChannel(server))) {}
  ~ScriptedWorker() { Stop(); }

  v1::SynchronizeRequest State() const {
    v1::SynchronizeRequest request;
    request.set_worker(id_);
    request.set_instance(id_ + "-instance");
    request.set_numerics_version(catalog::kNumericsVersion);
    request.mutable_device()->set_kind("cpu");
    return request;
  }

  static void SetTask(const v1::Task& task, v1::CurrentTask::Phase phase,
                      v1::SynchronizeRequest* request) {
    request->mutable_task()->set_task(task.name());
    request->mutable_task()->set_attempt(task.attempt());
    request->mutable_task()->set_phase(phase);
  }

  absl::Status Synchronize(const v1::SynchronizeRequest& request,
                           v1::SynchronizeResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return rpc::FromGrpc(stub_->Synchronize(&context, request, response));
  }

  std::string Chunk(const v1::Task& task, int index) const {
    if (task.stage() == "prepare") {
      return format::Frame(format::FrameKind::kManifest, manifest_);
    }
    const v1::UnitRange& range = task.units(index);
    if (task.stage() == "score") {
      return format::Frame(format::FrameKind::kScoreChunk, queue::FakeScoreChunk(manifest_, range));
    }
    std::vector<v1::ResolvedRule> rules;
    for (const v1::ResolvedRule& rule : task.rules()) {
      if (rule.index() >= range.first_rule() && rule.index() < range.first_rule() + range.rules()) {
        rules.push_back(rule);
      }
    }
    return format::Frame(format::FrameKind::kAblateChunk,
                         queue::FakeAblateChunk(manifest_, range, rules));
  }

  v1::ReportHeader Header(const v1::Task& task, int index, const std::string& bytes) const {
    v1::ReportHeader header;
    header.set_worker(id_);
    header.set_task(task.name());
    header.set_attempt(task.attempt());
    header.set_job(task.job());
    header.set_stage(task.stage());
    header.set_unit(task.first_unit() + index);
    header.set_crc32c(Crc32c(bytes));
    header.set_bytes(static_cast<int64_t>(bytes.size()));
    header.set_tokens(100);
    return header;
  }

  // Sends header (unless null) and bytes in pieces of `piece`.
  absl::Status Report(const v1::ReportHeader* header, const std::string& bytes,
                      v1::ReportResultsResponse* response, size_t piece = rpc::kPieceBytes) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    auto writer = stub_->ReportResults(&context, response);
    v1::ReportResultsRequest request;
    bool open = true;
    if (header != nullptr) {
      *request.mutable_header() = *header;
      open = writer->Write(request);
    }
    for (size_t at = 0; open && at < bytes.size(); at += piece) {
      request.set_data(bytes.substr(at, piece));
      open = writer->Write(request);
    }
    writer->WritesDone();
    return rpc::FromGrpc(writer->Finish());
  }

  void Run() {
    thread_ = std::thread([this] { Loop(); });
  }
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      if (held_ != nullptr) held_->TryCancel();
    }
    if (thread_.joinable()) thread_.join();
  }

  const v1::Manifest& manifest() const { return manifest_; }
  v1::WorkerService::Stub& stub() { return *stub_; }

 private:
  void Loop() {
    v1::SynchronizeRequest request = State();
    while (!stopping_) {
      v1::SynchronizeResponse response;
      const absl::Status status = SynchronizeUntilStopped(request, &response);
      request = State();
      if (!status.ok() || !response.has_run()) continue;
      const v1::Task& task = response.run();
      bool lost = false;
      for (int i = 0; i < task.unit_count() && !lost && !stopping_; ++i) {
        v1::SynchronizeRequest running = State();
        SetTask(task, v1::CurrentTask::RUNNING, &running);
        if (i == 0) SynchronizeBriefly(running);
        const std::string bytes = Chunk(task, i);
        const v1::ReportHeader header = Header(task, i, bytes);
        v1::ReportResultsResponse reported;
        lost = !Report(&header, bytes, &reported).ok();
      }
      if (!lost) SetTask(task, v1::CurrentTask::DONE, &request);
    }
  }

  // A held call is broken off when the worker is to stop.
  absl::Status SynchronizeUntilStopped(const v1::SynchronizeRequest& request,
                                       v1::SynchronizeResponse* response) {
    grpc::ClientContext context;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return absl::CancelledError("stopping");
      held_ = &context;
    }
    const absl::Status status = rpc::FromGrpc(stub_->Synchronize(&context, request, response));
    std::lock_guard lock(mutex_);
    held_ = nullptr;
    return status;
  }

  // Says that it runs; the answer is the same task and would be held.
  void SynchronizeBriefly(const v1::SynchronizeRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    v1::SynchronizeResponse response;
    stub_->Synchronize(&context, request, &response);
  }

  const std::string id_;
  const v1::Manifest manifest_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::mutex mutex_;
  grpc::ClientContext* held_ = nullptr;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace headcount::server
