// What one watcher gets next, without any transport: a snapshot, every durable event after its
// resume token in order, progress at most once a second, a heartbeat after 15 s of silence, and the
// end after the terminal event. server/api writes what this says, one message at a time.
//
// Not thread-safe: one call at a time. Errors end the stream: NOT_FOUND (no such job, or it was
// deleted meanwhile), OUT_OF_RANGE and INVALID_ARGUMENT for the token, the store's.

#pragma once

#include <deque>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "headcount/v1/job.pb.h"
#include "headcount/v1/job_service.pb.h"
#include "server/watch/event_feed.h"

namespace headcount::server {

struct WatchOptions {
  Clock::Duration progress_every = std::chrono::seconds(1);
  Clock::Duration heartbeat_every = std::chrono::seconds(15);
  int batch = 64;  // events held at most
};

class WatchCursor {
 public:
  // The job as clients see it (job_view.h), or NOT_FOUND.
  using JobFn = std::function<absl::StatusOr<v1::Job>(const std::string& name)>;

  enum class Step { kSend, kWait, kEnd };

  // `feed`, `jobs` and `clock` are not owned.
  WatchCursor(EventFeed& feed, store::JobStore& jobs, Clock& clock, JobFn job,
              v1::WatchJobRequest request, WatchOptions options = {});

  // kSend: `event` is to be sent, then call again. kWait: call again when woken. kEnd: all is sent.
  absl::StatusOr<Step> Next(v1::JobEvent* event);

 private:
  absl::StatusOr<Step> Start(v1::JobEvent* event);
  absl::StatusOr<Step> SendProgress(v1::JobEvent* event);
  Step Send(v1::JobEvent* event);

  EventFeed& feed_;
  store::JobStore& jobs_;
  Clock& clock_;
  const JobFn job_;
  const v1::WatchJobRequest request_;
  const WatchOptions options_;

  bool started_ = false;
  bool ended_ = false;     // the terminal event was sent, or the job had ended before
  bool terminal_ = false;  // the job had ended when it was looked at: no event comes any more
  std::string uid_;
  int64_t after_ = 0;  // last durable event that was sent or passed over
  std::deque<v1::JobEvent> buffer_;
  bool news_ = false;  // units were stored since the last progress
  Clock::Duration last_progress_{};
  Clock::Duration last_sent_{};
};

}  // namespace headcount::server
