// What the queue and the metrics see of the store. See sqlite_session.h.

#include <algorithm>

#include "common/base/status_macros.h"
#include "server/store/sqlite_session.h"

namespace headcount::store::sqlite {

absl::StatusOr<std::vector<RunnableStage>> RunnableStages(Session& session) {
  auto rows = session.db.Query(
      "SELECT j.id, j.name, j.owner, j.model, j.priority, j.create_time, s.stage, s.units,"
      " s.total_rows FROM jobs j JOIN stages s ON s.job_id = j.id"
      " WHERE j.state IN (1, 2, 3) AND s.done_units < s.units ORDER BY j.id, s.stage");
  std::vector<RunnableStage> stages;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return stages;
    RunnableStage stage;
    stage.stage = static_cast<Stage>(rows->Int(6));
    HC_ASSIGN_OR_RETURN(stage.free_units, FreeUnits(session, rows->Int(0), stage.stage));
    if (stage.free_units.empty()) continue;
    stage.job = rows->Text(1);
    stage.owner = rows->Text(2);
    stage.model = rows->Text(3);
    stage.priority = static_cast<int>(rows->Int(4));
    stage.created = Clock::Duration(rows->Int(5));
    stage.rows_per_unit = std::max<int64_t>(1, rows->Int(8) / std::max<int64_t>(1, rows->Int(7)));
    stages.push_back(std::move(stage));
  }
}

absl::StatusOr<JobStore::Totals> ReadTotals(Session& session) {
  JobStore::Totals totals;
  // Every state is there, so that a metric that falls to 0 says so.
  for (int state = v1::Job::QUEUED; state <= v1::Job::CANCELLED; ++state)
    totals.jobs[static_cast<v1::Job::State>(state)] = 0;
  auto jobs = session.db.Query("SELECT state, count(*), min(create_time) FROM jobs GROUP BY state");
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, jobs->Step());
    if (!row) break;
    const auto state = static_cast<v1::Job::State>(jobs->Int(0));
    totals.jobs[state] = jobs->Int(1);
    if (state == v1::Job::QUEUED) {
      totals.oldest_queued_seconds =
          std::max(0.0, static_cast<double>(session.wall - jobs->Int(2)) * 1e-9);
    }
  }
  HC_ASSIGN_OR_RETURN(totals.live_leases,
                      session.db.ReadInt("SELECT count(*) FROM leases WHERE live = 1"));
  HC_ASSIGN_OR_RETURN(totals.chunk_bytes,
                      session.db.ReadInt("SELECT coalesce(sum(chunk_bytes), 0) FROM stages"));
  return totals;
}

}  // namespace headcount::store::sqlite
