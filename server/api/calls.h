// How calls are run: the parts all services share. A handler is a plain function that may block; it
// runs on a pool, and its status becomes the call's. Streams have one write outstanding and compute
// the next message only when the last one is on its way, so a slow reader costs one message.
//
// Reactors delete themselves when gRPC is done with them. Thread-safe.

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/rpc/grpc_status.h"
#include "server/api/call_stats.h"
#include "server/api/guard.h"
#include "server/api/work_pool.h"

namespace headcount::server {

inline absl::Status ServerBusy() {
  return WithReason(absl::UnavailableError("the server has too many calls at once; try again"),
                    "SERVER_BUSY");
}

// The name a client claims in its metadata, or "".
std::string ClaimedUser(const grpc::CallbackServerContext& context);

// Runs `work` on the pool and finishes the call with its status.
grpc::ServerUnaryReactor* RunUnary(grpc::CallbackServerContext* context, WorkPool& pool,
                                   CallStats& stats, const char* method,
                                   std::function<absl::Status()> work);

// Sends what `next` gives until it says that there is no more (false) or fails. `next` runs on the
// pool, one call at a time. Everything that `next` holds is freed with the stream.
template <typename Message>
class StreamReactor final : public grpc::ServerWriteReactor<Message> {
 public:
  using NextFn = std::function<absl::StatusOr<bool>(Message*)>;

  StreamReactor(WorkPool& pool, CallStats& stats, const char* method, NextFn next)
      : pool_(pool), stats_(stats), method_(method), next_(std::move(next)) {
    if (!pool_.TryRun([this] { Step(); })) End(ServerBusy());
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(absl::CancelledError("the client went away"));
      return;
    }
    pool_.Run([this] { Step(); });
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  // After End or StartWrite the reactor may be gone.
  void Step() {
    if (cancelled_) return End(absl::CancelledError("the client went away"));
    bool more = false;
    message_.Clear();
    const absl::Status status = Guarded([&]() -> absl::Status {
      absl::StatusOr<bool> result = next_(&message_);
      if (result.ok()) more = *result;
      return result.status();
    });
    if (!status.ok() || !more) return End(status);
    this->StartWrite(&message_);
  }

  void End(const absl::Status& status) {
    stats_.Handled(method_, status.code());
    this->Finish(rpc::ToGrpc(status));
  }

  WorkPool& pool_;
  CallStats& stats_;
  const char* const method_;
  NextFn next_;
  Message message_;
  std::atomic<bool> cancelled_ = false;
};

// A stream that only fails.
template <typename Message>
grpc::ServerWriteReactor<Message>* FailStream(WorkPool& pool, CallStats& stats, const char* method,
                                              absl::Status status) {
  return new StreamReactor<Message>(
      pool, stats, method,
      [status = std::move(status)](Message*) -> absl::StatusOr<bool> { return status; });
}

}  // namespace headcount::server
