// Events of a job: a dense sequence from 1, written in the transaction of the change they tell. See
// sqlite_session.h.

#include <google/protobuf/util/time_util.h>

#include <algorithm>

#include "common/base/status_macros.h"
#include "server/store/sqlite_session.h"

namespace headcount::store::sqlite {

absl::StatusOr<int64_t> WriteEvent(Session& session, JobRow& job, v1::JobEvent event) {
  event.clear_sequence();
  event.clear_time();
  event.clear_resume_token();
  const int64_t sequence = job.last_sequence + 1;
  HC_RETURN_IF_ERROR(
      session.db.Run("INSERT INTO events (job_id, sequence, time, event) VALUES (?, ?, ?, ?)",
                     job.id, sequence, session.wall, Blob{event.SerializeAsString()}));
  HC_RETURN_IF_ERROR(
      session.db.Run("UPDATE jobs SET last_sequence = ?, update_time = ? WHERE id = ?", sequence,
                     session.wall, job.id));
  job.last_sequence = sequence;
  session.notified.insert(job.name);
  return sequence;
}

absl::StatusOr<bool> AppendEvent(Session& session, const std::string& name,
                                 const v1::JobEvent& event, const std::string& once_key) {
  HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, name));
  // The event of the end is the last one: a watcher stops there.
  if (IsTerminal(job.state)) return false;
  if (!once_key.empty()) {
    HC_RETURN_IF_ERROR(session.db.Run("INSERT OR IGNORE INTO once_keys (job_id, key) VALUES (?, ?)",
                                      job.id, once_key));
    if (session.db.Changes() == 0) return false;
  }
  HC_RETURN_IF_ERROR(WriteEvent(session, job, event).status());
  return true;
}

absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(Session& session, const std::string& name,
                                                     int64_t after, int limit) {
  HC_ASSIGN_OR_RETURN(const JobRow job, FindJob(session, name));
  auto rows = session.db.Query(
      "SELECT sequence, time, event FROM events WHERE job_id = ? AND sequence > ? "
      "ORDER BY sequence LIMIT ?",
      job.id, after, std::max(limit, 0));
  std::vector<v1::JobEvent> events;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return events;
    v1::JobEvent& event = events.emplace_back();
    HC_RETURN_IF_ERROR(rows->Parse(2, "event", &event));
    event.set_sequence(rows->Int(0));
    *event.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(rows->Int(1));
  }
}

}  // namespace headcount::store::sqlite
