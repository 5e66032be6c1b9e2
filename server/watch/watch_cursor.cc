// See watch_cursor.h.

#include "server/watch/watch_cursor.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "common/base/status_macros.h"
#include "server/watch/job_view.h"
#include "server/watch/resume_token.h"

namespace headcount::server {

WatchCursor::WatchCursor(EventFeed& feed, store::JobStore& jobs, Clock& clock, JobFn job,
                         v1::WatchJobRequest request, WatchOptions options)
    : feed_(feed),
      jobs_(jobs),
      clock_(clock),
      job_(std::move(job)),
      request_(std::move(request)),
      options_(options) {}

WatchCursor::Step WatchCursor::Send(v1::JobEvent* event) {
  last_sent_ = clock_.Monotonic();
  event->set_resume_token(MakeResumeToken(uid_, event->sequence()));
  return Step::kSend;
}

absl::StatusOr<WatchCursor::Step> WatchCursor::Start(v1::JobEvent* event) {
  HC_ASSIGN_OR_RETURN(v1::Job job, job_(request_.name()));
  HC_ASSIGN_OR_RETURN(const int64_t last, jobs_.LastSequence(request_.name()));
  uid_ = job.uid();
  HC_ASSIGN_OR_RETURN(after_, ParseResumeToken(request_.resume_token(), uid_, last));
  terminal_ = IsTerminal(job.state());
  started_ = true;
  last_progress_ = clock_.Monotonic();
  // The snapshot stands where the watcher stands: one that breaks off here misses nothing.
  event->set_sequence(after_);
  *event->mutable_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(clock_.Wall().count());
  *event->mutable_snapshot() = std::move(job);
  return Send(event);
}

absl::StatusOr<WatchCursor::Step> WatchCursor::SendProgress(v1::JobEvent* event) {
  event->set_sequence(after_);
  *event->mutable_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(clock_.Wall().count());
  if (!request_.quiet()) {
    HC_ASSIGN_OR_RETURN(const v1::Job job, job_(request_.name()));
    *event->mutable_progress() = job.progress();
  }
  news_ = false;
  last_progress_ = clock_.Monotonic();
  return Send(event);
}

absl::StatusOr<WatchCursor::Step> WatchCursor::Next(v1::JobEvent* event) {
  event->Clear();
  if (!started_) return Start(event);
  if (ended_) return Step::kEnd;
  const Clock::Duration now = clock_.Monotonic();
  if (news_ && !request_.quiet() && now - last_progress_ >= options_.progress_every) {
    return SendProgress(event);
  }
  while (true) {
    if (buffer_.empty()) {
      HC_ASSIGN_OR_RETURN(std::vector<v1::JobEvent> read,
                          feed_.Read(request_.name(), after_, options_.batch));
      buffer_.assign(std::make_move_iterator(read.begin()), std::make_move_iterator(read.end()));
    }
    if (buffer_.empty()) break;
    *event = std::move(buffer_.front());
    buffer_.pop_front();
    after_ = event->sequence();
    if (event->has_state_changed() && IsTerminal(event->state_changed().to())) ended_ = true;
    if (event->has_unit_stored()) {
      news_ = true;
      if (request_.quiet()) {
        event->Clear();
        continue;
      }
    }
    return Send(event);
  }
  if (terminal_) return Step::kEnd;
  if (now - last_sent_ >= options_.heartbeat_every) return SendProgress(event);
  return Step::kWait;
}

}  // namespace headcount::server
