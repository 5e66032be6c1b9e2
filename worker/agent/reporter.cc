// See reporter.h.

#include "worker/agent/reporter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "spdlog/spdlog.h"
#include "worker/agent/call_deadline.h"

namespace headcount::agent {
namespace {

constexpr std::chrono::seconds kSendDeadline{60};
constexpr int kDamagedTries = 5;  // of a chunk that arrives damaged

// The server is away, restarting or overloaded: the same chunk may be taken later.
bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

bool Dropped(const StopSignal& stop) {
  const StopReason reason = stop.reason();
  return reason == StopReason::kCancel || reason == StopReason::kLost;
}

}  // namespace

Reporter::Reporter(v1::WorkerService::StubInterface* stub, int64_t byte_limit, OnDone on_done)
    : stub_(stub),
      byte_limit_(byte_limit),
      on_done_(std::move(on_done)),
      thread_([this](std::stop_token token) { Loop(token); }) {}

Reporter::~Reporter() {
  thread_.request_stop();
  std::lock_guard lock(mutex_);
  if (sending_ != nullptr) sending_->TryCancel();
}

bool Reporter::Push(PendingChunk chunk) {
  const auto size = static_cast<int64_t>(chunk.data.size());
  chunk.header.set_bytes(size);
  chunk.header.set_crc32c(Crc32c(chunk.data));
  {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return bytes_ == 0 || bytes_ + size <= byte_limit_ || Dropped(*chunk.stop); });
    if (Dropped(*chunk.stop)) return false;
    bytes_ += size;
    queue_.push_back(std::move(chunk));
  }
  changed_.notify_all();
  return true;
}

void Reporter::Poke() {
  std::lock_guard lock(mutex_);  // no wait can miss it
  changed_.notify_all();
}

void Reporter::Loop(std::stop_token token) {
  for (;;) {
    PendingChunk chunk;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, token, [this] { return !queue_.empty(); })) return;
      chunk = std::move(queue_.front());
      queue_.pop_front();
    }
    const absl::Status status = SendUntilDone(chunk, token);
    if (token.stop_requested()) return;
    {
      std::lock_guard lock(mutex_);
      bytes_ -= static_cast<int64_t>(chunk.data.size());
    }
    changed_.notify_all();
    on_done_(chunk, status);
  }
}

absl::Status Reporter::SendUntilDone(const PendingChunk& chunk, std::stop_token token) {
  Backoff backoff;
  int damaged = 0;
  for (;;) {
    if (Dropped(*chunk.stop)) return absl::CancelledError("the task was stopped");
    const absl::Status status = Send(chunk, token);
    const bool again = MayPass(status) || (absl::IsDataLoss(status) && ++damaged < kDamagedTries);
    if (status.ok() || !again) return status;
    spdlog::warn("unit {} of {} is not stored yet: {}", chunk.header.unit(), chunk.header.job(),
                 status.ToString());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, token, backoff.Next(), [&] { return Dropped(*chunk.stop); });
    if (token.stop_requested()) return absl::CancelledError("the worker stops");
  }
}

absl::Status Reporter::Send(const PendingChunk& chunk, const std::stop_token& token) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kSendDeadline));
  {
    std::lock_guard lock(mutex_);
    if (token.stop_requested()) return absl::CancelledError("the worker stops");
    sending_ = &context;
  }
  v1::ReportResultsResponse response;
  const auto writer = stub_->ReportResults(&context, &response);
  v1::ReportResultsRequest part;
  *part.mutable_header() = chunk.header;
  bool open = writer->Write(part);
  for (size_t at = 0; open && at < chunk.data.size(); at += rpc::kPieceBytes) {
    part.set_data(chunk.data.substr(at, rpc::kPieceBytes));
    open = writer->Write(part);
  }
  if (open) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  std::lock_guard lock(mutex_);
  sending_ = nullptr;
  return rpc::FromGrpc(status);
}

}  // namespace headcount::agent
