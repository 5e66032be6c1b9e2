// A worker for tests: takes tasks from a TestServer's dispatcher, reports deterministic chunks to
// its sink, one unit a step, and dies when it is told to.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "gtest/gtest.h"
#include "tests/server/plan/manifests.h"
#include "tests/server/queue/fake_chunks.h"
#include "tests/server/queue/test_server.h"

namespace headcount::queue {

class FakeWorker {
 public:
  FakeWorker(TestServer& server, std::string id, int documents = 12)
      : FakeWorker(server, std::move(id), plan::Pairs(documents)) {}
  // `prepared`: what its prepare stages come to.
  FakeWorker(TestServer& server, std::string id, v1::Manifest prepared)
      : server_(server), id_(std::move(id)), prepared_(std::move(prepared)) {}

  v1::SynchronizeRequest Request() const {
    v1::SynchronizeRequest request;
    request.set_worker(id_);
    request.set_instance((process.empty() ? id_ : process) + "/" + std::to_string(life_));
    request.set_numerics_version(catalog::kNumericsVersion);
    request.mutable_device()->set_kind("cpu");
    request.set_loaded_model(model_);
    request.set_rows_per_second(rows_per_second);
    request.set_lane(lane);
    return request;
  }

  v1::SynchronizeRequest Request(v1::CurrentTask::Phase phase) const {
    v1::SynchronizeRequest request = Request();
    request.mutable_task()->set_task(task_->name());
    request.mutable_task()->set_attempt(task_->attempt());
    request.mutable_task()->set_phase(phase);
    return request;
  }

  // Calls and takes what it is told. False: idle.
  bool Call(const v1::SynchronizeRequest& request) {
    const auto outcome = server_.dispatcher->Synchronize(request);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return false;
    last_ = *outcome;
    switch (outcome->response.desired_case()) {
      case v1::SynchronizeResponse::kRun:
        if (!task_.has_value() || task_->name() != outcome->response.run().name()) {
          task_ = outcome->response.run();
          next_ = 0;
          model_ = task_->stage() == "prepare" ? model_ : task_->model();
        }
        return true;
      case v1::SynchronizeResponse::kCancel:
      case v1::SynchronizeResponse::kDrain:
        if (task_.has_value()) {
          const v1::SynchronizeRequest released = Request(v1::CurrentTask::RELEASED);
          task_.reset();
          return Call(released);
        }
        return false;
      default:
        task_.reset();
        return false;
    }
  }

  // Gets a task, or computes one unit of the one it has. False: there is nothing to do.
  bool Step() {
    if (!task_.has_value()) return Call(Request());
    if (!Call(Request(v1::CurrentTask::RUNNING))) return false;
    if (next_ < task_->unit_count()) {
      const absl::StatusOr<v1::ReportResultsResponse> reported = Report(next_);
      if (absl::IsAborted(reported.status())) {
        task_.reset();
        return true;
      }
      EXPECT_TRUE(reported.ok()) << reported.status();
      ++next_;
    }
    if (next_ == task_->unit_count()) {
      const v1::SynchronizeRequest done = Request(v1::CurrentTask::DONE);
      task_.reset();
      Call(done);
    }
    return true;
  }

  // Reports the task's unit number `index`.
  absl::StatusOr<v1::ReportResultsResponse> Report(int64_t index) {
    const std::string bytes = Chunk(index);
    v1::ReportHeader header = Header(index);
    header.set_crc32c(Crc32c(bytes));
    header.set_bytes(static_cast<int64_t>(bytes.size()));
    return server_.sink->Report(header, bytes);
  }

  v1::ReportHeader Header(int64_t index) const {
    v1::ReportHeader header;
    header.set_worker(id_);
    header.set_task(task_->name());
    header.set_attempt(task_->attempt());
    header.set_job(task_->job());
    header.set_stage(task_->stage());
    header.set_unit(task_->first_unit() + index);
    return header;
  }

  std::string Chunk(int64_t index) {
    if (task_->stage() == "prepare") {
      return format::Frame(format::FrameKind::kManifest, prepared_);
    }
    const auto manifest = server_.manifests->Get(task_->manifest_digest());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const v1::UnitRange& range = task_->units(static_cast<int>(index));
    if (task_->stage() == "score") {
      return format::Frame(format::FrameKind::kScoreChunk, FakeScoreChunk(**manifest, range));
    }
    return format::Frame(format::FrameKind::kAblateChunk,
                         FakeAblateChunk(**manifest, range, RulesOf(range)));
  }

  std::vector<v1::ResolvedRule> RulesOf(const v1::UnitRange& range) const {
    std::vector<v1::ResolvedRule> rules;
    for (const v1::ResolvedRule& rule : task_->rules()) {
      if (rule.index() >= range.first_rule() && rule.index() < range.first_rule() + range.rules()) {
        rules.push_back(rule);
      }
    }
    return rules;
  }

  // Another process takes its place; it knows nothing.
  void Die() {
    ++life_;
    task_.reset();
    model_.clear();
  }

  const std::string& id() const { return id_; }
  const std::optional<v1::Task>& task() const { return task_; }
  int64_t next() const { return next_; }
  const SyncOutcome& last() const { return last_; }

  double rows_per_second = 0;
  v1::SynchronizeRequest::Lane lane = v1::SynchronizeRequest::ANY;
  std::string process;  // that it is a lane of; empty: it is one of its own

 private:
  TestServer& server_;
  const std::string id_;
  const v1::Manifest prepared_;
  int life_ = 0;
  std::string model_;
  std::optional<v1::Task> task_;
  int64_t next_ = 0;  // of the task's units
  SyncOutcome last_;
};

}  // namespace headcount::queue
