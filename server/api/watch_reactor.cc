// See watch_reactor.h.

#include "server/api/watch_reactor.h"

#include <utility>

#include "common/base/errors.h"
#include "common/rpc/grpc_status.h"
#include "server/api/guard.h"

namespace headcount::server {
namespace {

constexpr char kMethod[] = "JobService/WatchJob";

absl::Status ClientGone() { return absl::CancelledError("the client went away"); }

absl::Status Stopping() {
  return WithReason(
      absl::UnavailableError("the server is stopping; watch again with the last resume_token"),
      "SERVER_DRAINING");
}

absl::Status TooSlow() {
  return WithReason(absl::ResourceExhaustedError(
                        "the client did not read; watch again with its last resume_token"),
                    "WATCHER_TOO_SLOW");
}

}  // namespace

WatchReactor::WatchReactor(Environment environment, const std::string& job,
                           std::unique_ptr<WatchCursor> cursor)
    : environment_(std::move(environment)), cursor_(std::move(cursor)) {
  // Subscribed before the first read: what is stored in between wakes this stream.
  subscription_ = environment_.feed.Subscribe(job, [this] { Wake(); });
  Wake();
}

void WatchReactor::Wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  if (phase_ == Phase::kIdle) {
    phase_ = Phase::kPumping;
    environment_.pool.Run([this] { Pump(); });
  } else if (phase_ == Phase::kWriting && !cut_off_ &&
             environment_.clock.Monotonic() - write_started_ >= environment_.longest_write) {
    cut_off_ = true;
    environment_.pool.Run([this] { CutOff(); });
  }
}

void WatchReactor::Pump() {
  while (true) {
    absl::Status status;
    {
      std::lock_guard lock(mutex_);
      woken_ = false;
      if (cancelled_) status = ClientGone();
    }
    if (environment_.stopping()) status = Stopping();
    WatchCursor::Step step = WatchCursor::Step::kEnd;
    if (status.ok()) {
      status = Guarded([&]() -> absl::Status {
        absl::StatusOr<WatchCursor::Step> next = cursor_->Next(&message_);
        if (next.ok()) step = *next;
        return next.status();
      });
    }
    if (!status.ok() || step == WatchCursor::Step::kEnd) return End(status);
    {
      std::lock_guard lock(mutex_);
      if (step == WatchCursor::Step::kWait) {
        if (woken_ || cancelled_) continue;
        phase_ = Phase::kIdle;
        return;
      }
      phase_ = Phase::kWriting;
      write_started_ = environment_.clock.Monotonic();
    }
    StartWrite(&message_);
    return;
  }
}

void WatchReactor::CutOff() {
  // OnWriteDone leaves a stream that is cut off alone, so it is still there. A wake of this stream
  // only reads its own state from here on.
  End(TooSlow());
}

void WatchReactor::End(const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    phase_ = Phase::kFinished;
  }
  environment_.stats.Handled(kMethod, status.code());
  Finish(rpc::ToGrpc(status));
}

void WatchReactor::OnWriteDone(bool ok) {
  bool gone = false;
  {
    std::lock_guard lock(mutex_);
    if (cut_off_) return;
    gone = !ok || cancelled_;
    phase_ = Phase::kPumping;
    if (!gone) environment_.pool.Run([this] { Pump(); });
  }
  if (gone) End(ClientGone());
}

void WatchReactor::OnCancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (phase_ != Phase::kIdle) return;
    phase_ = Phase::kFinished;
  }
  End(ClientGone());
}

void WatchReactor::OnDone() {
  subscription_.reset();
  delete this;
}

}  // namespace headcount::server
