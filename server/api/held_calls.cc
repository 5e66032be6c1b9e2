// See held_calls.h.

#include "server/api/held_calls.h"

#include <utility>
#include <vector>

#include "common/base/errors.h"
#include "common/rpc/grpc_status.h"
#include "server/api/guard.h"

namespace headcount::server {
namespace {

constexpr char kMethod[] = "WorkerService/Synchronize";

absl::Status ClientGone() { return absl::CancelledError("the worker went away"); }

absl::Status Stopping() {
  return WithReason(absl::UnavailableError("the server is stopping"), "SERVER_DRAINING");
}

}  // namespace

class HeldCalls::Call final : public grpc::ServerUnaryReactor {
 public:
  enum class State { kAsking, kHeld, kEnded };

  Call(HeldCalls& owner, const v1::SynchronizeRequest* request, v1::SynchronizeResponse* response)
      : request(request), response(response), owner_(owner) {}

  void OnCancel() override {
    {
      std::lock_guard lock(owner_.mutex_);
      cancelled = true;
      if (state != State::kHeld) return;
      state = State::kEnded;
      owner_.calls_.erase(this);
    }
    End(ClientGone());
  }
  void OnDone() override { delete this; }

  // Without the lock, by whoever set kEnded. The call may be gone afterwards.
  void End(const absl::Status& status) {
    owner_.stats_.Handled(kMethod, status.code());
    Finish(rpc::ToGrpc(status));
  }

  const v1::SynchronizeRequest* const request;
  v1::SynchronizeResponse* const response;
  // Guarded by the owner's lock.
  State state = State::kAsking;
  bool asked = false;  // the dispatcher has seen the call
  bool again = false;  // something changed while it was asked
  bool due = false;    // its time is over: the next answer is sent whatever it is
  bool cancelled = false;
  Clock::Duration deadline{};

 private:
  HeldCalls& owner_;
};

HeldCalls::HeldCalls(queue::Dispatcher& dispatcher, WorkPool& pool, CallStats& stats,
                     const Clock& clock)
    : dispatcher_(dispatcher), pool_(pool), stats_(stats), clock_(clock), timer_([this] {
        Loop();
      }) {}

HeldCalls::~HeldCalls() {
  Stop();
  timer_.join();
}

grpc::ServerUnaryReactor* HeldCalls::Start(const v1::SynchronizeRequest* request,
                                           v1::SynchronizeResponse* response) {
  auto* call = new Call(*this, request, response);
  {
    std::lock_guard lock(mutex_);
    calls_.insert(call);
  }
  pool_.Run([this, call] { Ask(call); });
  return call;
}

void HeldCalls::Ask(Call* call) {
  while (true) {
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      first = !std::exchange(call->asked, true);
      call->again = false;
    }
    queue::SyncOutcome outcome;
    absl::Status status = Guarded([&]() -> absl::Status {
      auto answer =
          first ? dispatcher_.Synchronize(*call->request) : dispatcher_.Recheck(*call->request);
      if (answer.ok()) outcome = *std::move(answer);
      return answer.status();
    });
    {
      std::lock_guard lock(mutex_);
      if (call->cancelled) {
        status = ClientGone();
      } else if (status.ok() && outcome.hold && stopping_) {
        status = Stopping();
      } else if (status.ok() && outcome.hold && !call->due) {
        if (first) {
          call->deadline = clock_.Monotonic() + outcome.hold_for;
        }
        if (call->again) continue;
        call->state = Call::State::kHeld;
        changed_.notify_all();
        return;
      }
      call->state = Call::State::kEnded;
      calls_.erase(call);
    }
    if (status.ok()) *call->response = std::move(outcome.response);
    return call->End(status);
  }
}

void HeldCalls::Changed() {
  std::lock_guard lock(mutex_);
  for (Call* call : calls_) {
    call->again = true;
    if (call->state != Call::State::kHeld) continue;
    call->state = Call::State::kAsking;
    pool_.Run([this, call] { Ask(call); });
  }
}

void HeldCalls::Stop() {
  std::vector<Call*> ended;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Call* call : calls_) {
      if (call->state == Call::State::kHeld) {
        call->state = Call::State::kEnded;
        ended.push_back(call);
      }
    }
    for (Call* call : ended) calls_.erase(call);
  }
  changed_.notify_all();
  for (Call* call : ended) call->End(Stopping());
}

void HeldCalls::Loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Clock::Duration now = clock_.Monotonic();
    Clock::Duration next = now + std::chrono::hours(1);
    for (Call* call : calls_) {
      if (call->state != Call::State::kHeld) continue;
      if (call->deadline > now) {
        next = std::min(next, call->deadline);
        continue;
      }
      call->due = true;
      call->state = Call::State::kAsking;
      pool_.Run([this, call] { Ask(call); });
    }
    changed_.wait_for(lock, next - now);
  }
}

}  // namespace headcount::server
