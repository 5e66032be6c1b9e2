// Fan-out of stored events to many watchers. Watchers pull: a change only wakes them, and each
// reads from the store what comes after its own position, so memory does not grow with slow
// readers. The newest events of a watched job are read from the store once and shared.
//
// Thread-safe. `wake` functions are called from any thread, never under a lock of the feed that
// they could need; they must not block. Errors: the store's.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/job.pb.h"
#include "server/store/job_store.h"

namespace headcount::server {

class EventFeed {
 private:
  struct Watched;
  struct Waker;

 public:
  // Ends the subscription when destroyed; afterwards, and not before, no wake is running.
  class Subscription {
   public:
    Subscription(EventFeed& feed, std::string job, std::shared_ptr<Waker> waker);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    EventFeed& feed_;
    const std::string job_;
    const std::shared_ptr<Waker> waker_;
  };

  // `jobs` is not owned. At most `cached` events are shared for each watched job.
  explicit EventFeed(store::JobStore& jobs, size_t cached = 256);
  ~EventFeed();

  std::unique_ptr<Subscription> Subscribe(const std::string& job, std::function<void()> wake);

  // Events with sequence > after, ascending, at most `limit`.
  absl::StatusOr<std::vector<v1::JobEvent>> Read(const std::string& job, int64_t after, int limit);

  // The store's listener: events of the job were written.
  void JobChanged(const std::string& job);
  // Its events are gone.
  void JobDeleted(const std::string& job);
  // Wakes everybody, for what is due by time. Once a second.
  void Tick();

  // Live subscriptions.
  int64_t size() const;

 private:
  void Unsubscribe(const std::string& job, const std::shared_ptr<Waker>& waker);
  std::shared_ptr<Watched> Find(const std::string& job) const;
  static void Wake(const std::shared_ptr<Watched>& watched);

  store::JobStore& jobs_;
  const size_t cached_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<Watched>> watched_;
  int64_t size_ = 0;
};

}  // namespace headcount::server
