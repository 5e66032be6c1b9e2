// Synchronize calls that wait until the dispatcher wants something else of the worker, or their
// time is over. They hold no thread: one timer thread knows the deadlines, and every change asks
// the dispatcher again on the pool. Thread-safe.
//
// The destructor must come after all calls have ended (HeadcountServer stops gRPC first).

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/api/call_stats.h"
#include "server/api/work_pool.h"
#include "server/queue/dispatcher.h"

namespace headcount::server {

class HeldCalls {
 public:
  // None is owned.
  HeldCalls(queue::Dispatcher& dispatcher, WorkPool& pool, CallStats& stats, const Clock& clock);
  ~HeldCalls();

  // Takes the call over: answers it at once or holds it. Request and response live as long as the
  // call.
  grpc::ServerUnaryReactor* Start(const v1::SynchronizeRequest* request,
                                  v1::SynchronizeResponse* response);

  // The dispatcher's listener.
  void Changed();
  // Ends all held calls, and later ones, with UNAVAILABLE.
  void Stop();

 private:
  class Call;

  // Ask the dispatcher on the pool; a call that is being asked is asked once more afterwards.
  void Ask(Call* call);
  void Loop();

  queue::Dispatcher& dispatcher_;
  WorkPool& pool_;
  CallStats& stats_;
  const Clock& clock_;

  std::mutex mutex_;  // guards what follows and the state of all calls
  std::condition_variable changed_;
  std::set<Call*> calls_;
  bool stopping_ = false;
  std::thread timer_;
};

}  // namespace headcount::server
