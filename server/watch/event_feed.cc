// See event_feed.h.

#include "server/watch/event_feed.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"

namespace headcount::server {

struct EventFeed::Waker {
  std::mutex mutex;
  std::function<void()> wake;  // empty once unsubscribed
};

struct EventFeed::Watched {
  std::mutex mutex;                 // guards the cache; held while the store is read
  std::deque<v1::JobEvent> events;  // the newest, without gaps
  bool stale = true;                // the store may hold newer ones
  std::mutex wakers_mutex;          // guards wakers
  std::vector<std::shared_ptr<Waker>> wakers;
};

EventFeed::EventFeed(store::JobStore& jobs, size_t cached) : jobs_(jobs), cached_(cached) {}
EventFeed::~EventFeed() = default;

EventFeed::Subscription::Subscription(EventFeed& feed, std::string job,
                                      std::shared_ptr<Waker> waker)
    : feed_(feed), job_(std::move(job)), waker_(std::move(waker)) {}

EventFeed::Subscription::~Subscription() { feed_.Unsubscribe(job_, waker_); }

std::unique_ptr<EventFeed::Subscription> EventFeed::Subscribe(const std::string& job,
                                                              std::function<void()> wake) {
  auto waker = std::make_shared<Waker>();
  waker->wake = std::move(wake);
  std::lock_guard lock(mutex_);
  std::shared_ptr<Watched>& watched = watched_[job];
  if (watched == nullptr) watched = std::make_shared<Watched>();
  {
    std::lock_guard wakers_lock(watched->wakers_mutex);
    watched->wakers.push_back(waker);
  }
  ++size_;
  return std::make_unique<Subscription>(*this, job, std::move(waker));
}

void EventFeed::Unsubscribe(const std::string& job, const std::shared_ptr<Waker>& waker) {
  {
    std::lock_guard lock(mutex_);
    const auto found = watched_.find(job);
    std::lock_guard wakers_lock(found->second->wakers_mutex);
    std::erase(found->second->wakers, waker);
    --size_;
  }
  {
    std::lock_guard lock(mutex_);
    const auto found = watched_.find(job);
    if (found != watched_.end()) {
      std::unique_lock wakers_lock(found->second->wakers_mutex);
      const bool last = found->second->wakers.empty();
      wakers_lock.unlock();
      if (last) watched_.erase(found);
    }
  }
  // Waits for a wake that is running and makes later ones do nothing.
  std::lock_guard lock(waker->mutex);
  waker->wake = nullptr;
}

std::shared_ptr<EventFeed::Watched> EventFeed::Find(const std::string& job) const {
  std::lock_guard lock(mutex_);
  const auto found = watched_.find(job);
  return found == watched_.end() ? nullptr : found->second;
}

absl::StatusOr<std::vector<v1::JobEvent>> EventFeed::Read(const std::string& job, int64_t after,
                                                          int limit) {
  const std::shared_ptr<Watched> watched = Find(job);
  if (watched == nullptr) return jobs_.ReadEvents(job, after, limit);

  std::lock_guard lock(watched->mutex);
  std::deque<v1::JobEvent>& events = watched->events;
  const bool covered = !events.empty() && after + 1 >= events.front().sequence();
  if (covered && after < events.back().sequence()) {
    const auto begin = events.begin() + (after + 1 - events.front().sequence());
    const auto count = std::min<int64_t>(limit, events.end() - begin);
    return std::vector<v1::JobEvent>(begin, begin + count);
  }
  if (covered && after == events.back().sequence() && !watched->stale) {
    return std::vector<v1::JobEvent>();
  }
  HC_ASSIGN_OR_RETURN(std::vector<v1::JobEvent> read, jobs_.ReadEvents(job, after, limit));
  const bool extends = covered && after == events.back().sequence();
  if (extends || events.empty()) {
    events.insert(events.end(), read.begin(), read.end());
    while (events.size() > cached_) events.pop_front();
    watched->stale = static_cast<int>(read.size()) == limit;
  }
  return read;
}

void EventFeed::Wake(const std::shared_ptr<Watched>& watched) {
  std::vector<std::shared_ptr<Waker>> wakers;
  {
    std::lock_guard lock(watched->wakers_mutex);
    wakers = watched->wakers;
  }
  for (const std::shared_ptr<Waker>& waker : wakers) {
    std::lock_guard lock(waker->mutex);
    if (waker->wake) waker->wake();
  }
}

void EventFeed::JobChanged(const std::string& job) {
  const std::shared_ptr<Watched> watched = Find(job);
  if (watched == nullptr) return;
  {
    std::lock_guard lock(watched->mutex);
    watched->stale = true;
  }
  Wake(watched);
}

void EventFeed::JobDeleted(const std::string& job) {
  const std::shared_ptr<Watched> watched = Find(job);
  if (watched == nullptr) return;
  {
    std::lock_guard lock(watched->mutex);
    watched->events.clear();
    watched->stale = true;
  }
  Wake(watched);
}

void EventFeed::Tick() {
  std::vector<std::shared_ptr<Watched>> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [job, watched] : watched_) all.push_back(watched);
  }
  for (const std::shared_ptr<Watched>& watched : all) Wake(watched);
}

int64_t EventFeed::size() const {
  std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace headcount::server
