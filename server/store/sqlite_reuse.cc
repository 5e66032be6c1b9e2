// What jobs have computed, by what it was computed from, and the units of a new stage that need not
// be computed again. See sqlite_session.h.

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/store/sqlite_session.h"

namespace headcount::store::sqlite {

absl::Status PutRowKeys(Session& session, const std::string& digest, const std::string& device_kind,
                        const std::vector<std::string>& keys) {
  int64_t row = 0;
  for (const std::string& key : keys) {
    HC_RETURN_IF_ERROR(
        session.db.Run("INSERT INTO row_keys (key, device_kind, digest, row) VALUES (?, ?, ?, ?)"
                       " ON CONFLICT DO UPDATE SET digest = excluded.digest, row = excluded.row",
                       key, device_kind, digest, row));
    ++row;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<StoredRows>>> FindRows(
    Session& session, const std::vector<std::string>& keys) {
  std::vector<std::vector<StoredRows>> found;
  for (const std::string& key : keys) {
    std::vector<StoredRows>& kinds = found.emplace_back();
    auto rows = session.db.Query(
        "SELECT r.digest, r.row, r.device_kind, (SELECT j.name FROM chunks c"
        " JOIN jobs j ON j.id = c.job_id WHERE c.digest = r.digest ORDER BY j.id LIMIT 1) AS job"
        " FROM row_keys r WHERE r.key = ? AND job IS NOT NULL ORDER BY r.device_kind",
        key);
    while (true) {
      HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
      if (!row) break;
      kinds.push_back({.digest = rows->Text(0),
                       .row = static_cast<int>(rows->Int(1)),
                       .device_kind = rows->Text(2),
                       .job = rows->Text(3)});
    }
  }
  return found;
}

absl::Status StoreReused(Session& session, int64_t job_id, Stage stage, const ReusedUnit& unit) {
  const int number = static_cast<int>(stage);
  HC_ASSIGN_OR_RETURN(const bool taken, TakeUnits(session, job_id, stage, {unit.unit, 1}));
  if (!taken) {
    return absl::OutOfRangeError(absl::StrCat("reused unit ", unit.unit, " of stage ",
                                              std::string(StageName(stage)),
                                              ": there is no such unit, or it was given twice"));
  }
  HC_RETURN_IF_ERROR(session.db.Run(
      "INSERT INTO chunks (job_id, stage, unit, attempt, digest, bytes, counts)"
      " VALUES (?, ?, ?, 0, ?, ?, ?)",
      job_id, number, unit.unit, unit.digest, unit.bytes, Blob{unit.counts.SerializeAsString()}));
  HC_RETURN_IF_ERROR(
      session.db.Run("UPDATE stages SET done_units = done_units + 1, done_rows = done_rows + ?,"
                     " chunk_bytes = chunk_bytes + ? WHERE job_id = ? AND stage = ?",
                     int64_t{unit.counts.rows()}, unit.bytes, job_id, number));
  return session.db.Run(
      "INSERT INTO reused_units (job_id, stage, source, units) VALUES (?, ?, ?, 1)"
      " ON CONFLICT DO UPDATE SET units = units + 1",
      job_id, number, unit.source);
}

absl::Status ReadReuse(Session& session, int64_t job_id, v1::Job* job) {
  auto rows = session.db.Query(
      "SELECT source, stage, units FROM reused_units WHERE job_id = ? ORDER BY stage, source",
      job_id);
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return absl::OkStatus();
    v1::ReusedUnits& reused = *job->mutable_provenance()->add_reused();
    reused.set_job(rows->Text(0));
    reused.set_stage(std::string(StageName(static_cast<Stage>(rows->Int(1)))));
    reused.set_units(rows->Int(2));
    v1::Progress& progress = *job->mutable_progress();
    progress.set_reused_units(progress.reused_units() + reused.units());
  }
}

absl::Status ForgetRows(Session& session) {
  return session.db.Run("DELETE FROM row_keys WHERE digest NOT IN (SELECT digest FROM chunks)");
}

}  // namespace headcount::store::sqlite
