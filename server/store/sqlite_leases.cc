// Leases and the chunks stored under them. `attempt` is the fencing token: whoever reports under a
// lease that is no longer live is refused, and nothing changes. See sqlite_session.h.

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/sqlite_session.h"

namespace headcount::store::sqlite {
namespace {

constexpr std::string_view kTasks = "/tasks/";
constexpr char kLeaseColumns[] =
    "SELECT j.name, l.attempt, l.stage, l.first_unit, l.unit_count, l.stored_units, l.worker,"
    " l.term, l.live, l.failures, l.failed_unit, j.id,"
    " EXISTS (SELECT 1 FROM chunks c WHERE c.job_id = l.job_id AND c.stage = l.stage"
    "  AND c.unit >= l.first_unit AND c.unit < l.first_unit + l.unit_count"
    "  AND c.attempt = l.attempt)"
    " FROM leases l JOIN jobs j ON j.id = l.job_id ";

struct LeaseRow {
  Lease lease;
  int64_t job_id = 0;
  Clock::Duration term{};
  bool live = false;
  bool stored_any = false;  // a unit was stored under this lease
  int failures = 0;
  int64_t failed_unit = -1;
};

LeaseRow FromRow(const Statement& row) {
  LeaseRow out;
  out.lease.job = row.Text(0);
  out.lease.attempt = static_cast<int>(row.Int(1));
  out.lease.task = MakeTaskName(out.lease.job, out.lease.attempt);
  out.lease.stage = static_cast<Stage>(row.Int(2));
  out.lease.first_unit = row.Int(3);
  out.lease.unit_count = row.Int(4);
  out.lease.stored_units = row.Int(5);
  out.lease.worker = row.Text(6);
  out.term = Clock::Duration(row.Int(7));
  out.live = row.Int(8) != 0;
  out.failures = static_cast<int>(row.Int(9));
  out.failed_unit = row.Int(10);
  out.job_id = row.Int(11);
  out.stored_any = row.Int(12) != 0;
  return out;
}

// NOT_FOUND when there never was such a lease.
absl::StatusOr<LeaseRow> FindLease(Session& session, const std::string& task, int attempt) {
  HC_ASSIGN_OR_RETURN(const TaskName name, ParseTaskName(task));
  if (name.attempt != attempt)
    return LeaseLost(task, absl::StrCat("attempt ", attempt, " is not the task's"));
  auto found = session.db.Query(absl::StrCat(kLeaseColumns, "WHERE j.name = ? AND l.attempt = ?"),
                                name.job, attempt);
  HC_ASSIGN_OR_RETURN(const bool row, found->Step());
  if (!row)
    return WithReason(absl::NotFoundError(absl::StrCat("no task ", task.substr(0, 200))),
                      "TASK_NOT_FOUND");
  return FromRow(*found);
}

UnitInterval UnitsOf(const Lease& lease) { return {lease.first_unit, lease.unit_count}; }

// Counts the failure at the unit the lease stopped at; how many there are now.
absl::StatusOr<int> CountFailure(Session& session, const LeaseRow& row, int64_t unit) {
  const int stage = static_cast<int>(row.lease.stage);
  if (!row.stored_any) {
    HC_RETURN_IF_ERROR(session.db.Run(
        "INSERT INTO unit_failures (job_id, stage, unit, failures) VALUES (?, ?, ?, 1)"
        " ON CONFLICT DO UPDATE SET failures = failures + 1",
        row.job_id, stage, unit));
  }
  auto count = session.db.Query(
      "SELECT failures FROM unit_failures WHERE job_id = ? AND stage = ? AND unit = ?", row.job_id,
      stage, unit);
  HC_ASSIGN_OR_RETURN(const bool counted, count->Step());
  return counted ? static_cast<int>(count->Int(0)) : 0;
}

// Marks the lease as ended and frees what it did not store.
absl::Status Close(Session& session, const LeaseRow& row, int failures, int64_t failed_unit) {
  HC_RETURN_IF_ERROR(session.db.Run(
      "UPDATE leases SET live = 0, failures = ?, failed_unit = ? WHERE job_id = ? AND attempt = ?",
      failures, failed_unit, row.job_id, row.lease.attempt));
  return FreeUnstored(session, row.job_id, row.lease.stage, UnitsOf(row.lease));
}

}  // namespace

absl::Status LeaseLost(std::string_view task, std::string_view why) {
  return WithReason(absl::AbortedError(absl::StrCat("the lease ", std::string(task.substr(0, 200)),
                                                    " is not yours any more: ", std::string(why))),
                    "LEASE_LOST");
}

std::string MakeTaskName(std::string_view job, int attempt) {
  return absl::StrCat(std::string(job), std::string(kTasks), attempt);
}

absl::StatusOr<TaskName> ParseTaskName(std::string_view task) {
  const size_t at = task.rfind(kTasks);
  TaskName name;
  if (at == std::string_view::npos ||
      !absl::SimpleAtoi(std::string(task.substr(at + kTasks.size())), &name.attempt)) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("no task ", std::string(task.substr(0, 200)))),
        "TASK_NOT_FOUND");
  }
  name.job = std::string(task.substr(0, at));
  return name;
}

absl::StatusOr<Lease> LeaseTask(Session& session, const Assignment& assignment,
                                Clock::Duration term) {
  HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, assignment.job));
  if (!IsRunnable(job.state)) {
    return WithReason(absl::AbortedError(absl::StrCat(
                          job.name, " is ", v1::Job::State_Name(job.state), ": it may not run")),
                      "JOB_STATE");
  }
  const UnitInterval units{assignment.first_unit, assignment.unit_count};
  HC_ASSIGN_OR_RETURN(const bool taken, TakeUnits(session, job.id, assignment.stage, units));
  if (!taken) {
    return WithReason(
        absl::AbortedError(
            absl::StrCat(job.name, ": the ", units.count, " units from ", units.first, " of stage ",
                         std::string(StageName(assignment.stage)), " are not all free")),
        "UNITS_TAKEN");
  }
  Lease lease{.task = MakeTaskName(job.name, job.attempt + 1),
              .job = job.name,
              .stage = assignment.stage,
              .first_unit = units.first,
              .unit_count = units.count,
              .attempt = job.attempt + 1,
              .worker = assignment.worker};
  HC_RETURN_IF_ERROR(
      session.db.Run("UPDATE jobs SET attempt = ?, revision = revision + 1, update_time = ?"
                     " WHERE id = ?",
                     lease.attempt, session.wall, job.id));
  ++job.revision;
  HC_RETURN_IF_ERROR(session.db.Run(
      "INSERT INTO leases (job_id, attempt, stage, first_unit, unit_count, stored_units, worker,"
      " term, live, failures, failed_unit) VALUES (?, ?, ?, ?, ?, 0, ?, ?, 1, 0, -1)",
      job.id, lease.attempt, static_cast<int>(lease.stage), lease.first_unit, lease.unit_count,
      lease.worker, int64_t{term.count()}));
  if (job.state == v1::Job::QUEUED)
    HC_RETURN_IF_ERROR(ChangeState(session, job, v1::Job::STARTING, "LEASED", nullptr));
  return lease;
}

absl::StatusOr<Lease> FindLiveLease(Session& session, const std::string& task, int attempt) {
  auto row = FindLease(session, task, attempt);
  if (absl::IsNotFound(row.status())) return LeaseLost(task, "there is no such task");
  HC_RETURN_IF_ERROR(row.status());
  if (!row->live) return LeaseLost(task, "it has ended");
  return std::move(row->lease);
}

absl::StatusOr<EndedLease> EndLease(Session& session, const std::string& task, int attempt,
                                    LeaseEnd end, const std::string& cause,
                                    const std::string& detail) {
  HC_ASSIGN_OR_RETURN(LeaseRow row, FindLease(session, task, attempt));
  if (!row.live) return EndedLease{std::move(row.lease), row.failures, row.failed_unit};
  EndedLease ended;
  const bool lost = end == LeaseEnd::kExpired || end == LeaseEnd::kCrash;
  if (lost) {
    HC_ASSIGN_OR_RETURN(ended.failed_unit,
                        FirstUnstored(session, row.job_id, row.lease.stage, UnitsOf(row.lease)));
    HC_ASSIGN_OR_RETURN(ended.failures, CountFailure(session, row, ended.failed_unit));
  }
  HC_RETURN_IF_ERROR(Close(session, row, ended.failures, ended.failed_unit));
  if (lost) {
    HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, row.lease.job));
    v1::JobEvent event;
    v1::TaskLost& task_lost = *event.mutable_task_lost();
    task_lost.set_task(task);
    task_lost.set_attempt(attempt);
    task_lost.set_cause(cause);
    task_lost.set_worker(row.lease.worker);
    task_lost.set_detail(detail);
    HC_RETURN_IF_ERROR(WriteEvent(session, job, std::move(event)).status());
  }
  ended.lease = std::move(row.lease);
  return ended;
}

absl::Status ReleaseAll(Session& session, const JobRow& job) {
  HC_ASSIGN_OR_RETURN(const std::vector<TermedLease> leases, LiveLeases(session, job.name));
  for (const TermedLease& live : leases) {
    LeaseRow row;
    row.lease = live.lease;
    row.job_id = job.id;
    HC_RETURN_IF_ERROR(Close(session, row, 0, -1));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredChunk> StoreChunk(Session& session, const std::string& task, int attempt,
                                       int64_t unit, const std::string& digest, int64_t bytes,
                                       const v1::UnitCounts& counts) {
  auto found = FindLease(session, task, attempt);
  if (absl::IsNotFound(found.status())) return LeaseLost(task, "there is no such task");
  HC_RETURN_IF_ERROR(found.status());
  LeaseRow& row = *found;
  const int stage = static_cast<int>(row.lease.stage);
  auto progress = session.db.Query(
      "SELECT units, done_units, EXISTS (SELECT 1 FROM chunks WHERE job_id = ?1 AND stage = ?2"
      " AND unit = ?3) FROM stages WHERE job_id = ?1 AND stage = ?2",
      row.job_id, stage, unit);
  HC_ASSIGN_OR_RETURN(const bool there, progress->Step());
  if (!there) return absl::DataLossError(absl::StrCat(task, ": its stage is missing"));
  const int64_t units = progress->Int(0);
  int64_t done_units = progress->Int(1);
  StoredChunk out;
  if (progress->Int(2) != 0) {
    out.outcome = StoreOutcome::kDuplicate;
    out.stage_complete = done_units == units;
    out.lease_complete = row.lease.stored_units == row.lease.unit_count;
    return out;
  }
  if (!row.live) return LeaseLost(task, "it has ended");
  if (unit < row.lease.first_unit || unit >= row.lease.first_unit + row.lease.unit_count)
    return LeaseLost(task, absl::StrCat("unit ", unit, " is not among its units"));

  ++done_units;
  ++row.lease.stored_units;
  HC_RETURN_IF_ERROR(session.db.Run(
      "INSERT INTO chunks (job_id, stage, unit, attempt, digest, bytes, counts)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)",
      row.job_id, stage, unit, attempt, digest, bytes, Blob{counts.SerializeAsString()}));
  HC_RETURN_IF_ERROR(session.db.Run(
      "UPDATE stages SET done_units = ?, done_rows = done_rows + ?, chunk_bytes = chunk_bytes + ?"
      " WHERE job_id = ? AND stage = ?",
      done_units, int64_t{counts.rows()}, bytes, row.job_id, stage));
  out.stage_complete = done_units == units;
  out.lease_complete = row.lease.stored_units == row.lease.unit_count;
  HC_RETURN_IF_ERROR(session.db.Run(
      "UPDATE leases SET stored_units = ?, live = ? WHERE job_id = ? AND attempt = ?",
      row.lease.stored_units, out.lease_complete ? 0 : 1, row.job_id, attempt));
  HC_RETURN_IF_ERROR(
      session.db.Run("DELETE FROM unit_failures WHERE job_id = ? AND stage = ? AND unit = ?",
                     row.job_id, stage, unit));

  HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, row.lease.job));
  v1::JobEvent event;
  v1::UnitStored& stored = *event.mutable_unit_stored();
  stored.set_stage(std::string(StageName(row.lease.stage)));
  stored.set_unit(unit);
  stored.set_rows(counts.rows());
  stored.set_done_units(done_units);
  stored.set_total_units(units);
  HC_ASSIGN_OR_RETURN(out.sequence, WriteEvent(session, job, std::move(event)));
  return out;
}

absl::StatusOr<std::vector<TermedLease>> LiveLeases(Session& session, const std::string& job) {
  auto rows = job.empty() ? session.db.Query(absl::StrCat(
                                kLeaseColumns, "WHERE l.live = 1 ORDER BY l.job_id, l.attempt"))
                          : session.db.Query(absl::StrCat(kLeaseColumns,
                                                          "WHERE l.live = 1 AND j.name = ?"
                                                          " ORDER BY l.attempt"),
                                             job);
  std::vector<TermedLease> leases;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return leases;
    LeaseRow lease = FromRow(*rows);
    leases.push_back({std::move(lease.lease), lease.term});
  }
}

}  // namespace headcount::store::sqlite
