// Stages, their units and chunks. A unit is free, leased or stored; the free ones are kept as
// intervals, so that the queue's view costs what is free, not what is stored. See sqlite_session.h.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/sqlite_session.h"

namespace headcount::store::sqlite {
namespace {

std::string Quoted(Stage stage) { return std::string(StageName(stage)); }

v1::JobEvent PlannedEvent(const StageRecord& stage, int64_t reused) {
  v1::JobEvent event;
  v1::StagePlanned& planned = *event.mutable_stage_planned();
  planned.set_stage(Quoted(stage.stage));
  planned.set_units(stage.units);
  for (const v1::SampleBlock& block : stage.plan.sample_blocks())
    planned.set_samples(planned.samples() + block.samples());
  planned.set_rules(stage.plan.rules_size());
  planned.set_reused_units(reused);
  return event;
}

absl::Status CheckRunnable(const JobRow& job) {
  if (IsRunnable(job.state)) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(job.name, " is ", v1::Job::State_Name(job.state),
                                                 ": it gets no further work")),
      "JOB_STATE");
}

absl::Status InsertFree(Session& session, int64_t job_id, Stage stage, UnitInterval units) {
  if (units.count <= 0) return absl::OkStatus();
  return session.db.Run(
      "INSERT INTO free_units (job_id, stage, first_unit, unit_count) VALUES (?, ?, ?, ?)", job_id,
      static_cast<int>(stage), units.first, units.count);
}

absl::Status EraseFree(Session& session, int64_t job_id, Stage stage, int64_t first_unit) {
  return session.db.Run("DELETE FROM free_units WHERE job_id = ? AND stage = ? AND first_unit = ?",
                        job_id, static_cast<int>(stage), first_unit);
}

// Frees `units`, none of which is free, and joins them with what they touch.
absl::Status Free(Session& session, int64_t job_id, Stage stage, UnitInterval units) {
  auto neighbours = session.db.Query(
      "SELECT first_unit, unit_count FROM free_units WHERE job_id = ? AND stage = ?"
      " AND (first_unit + unit_count = ? OR first_unit = ?)",
      job_id, static_cast<int>(stage), units.first, units.first + units.count);
  std::vector<UnitInterval> touching;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, neighbours->Step());
    if (!row) break;
    touching.push_back({neighbours->Int(0), neighbours->Int(1)});
  }
  for (const UnitInterval& other : touching) {
    HC_RETURN_IF_ERROR(EraseFree(session, job_id, stage, other.first));
    units = {std::min(units.first, other.first), units.count + other.count};
  }
  return InsertFree(session, job_id, stage, units);
}

absl::StatusOr<std::vector<std::string>> Texts(std::unique_ptr<Statement> rows) {
  std::vector<std::string> texts;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return texts;
    texts.push_back(rows->Text(0));
  }
}

}  // namespace

absl::Status AddStage(Session& session, const StageRecord& stage,
                      const std::vector<ReusedUnit>& reused) {
  HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, stage.job));
  const int number = static_cast<int>(stage.stage);
  auto there =
      session.db.Query("SELECT 1 FROM stages WHERE job_id = ? AND stage = ?", job.id, number);
  HC_ASSIGN_OR_RETURN(const bool exists, there->Step());
  if (exists) {
    return WithReason(
        absl::AlreadyExistsError(absl::StrCat(job.name, " has its stage ", Quoted(stage.stage))),
        "STAGE_EXISTS");
  }
  HC_RETURN_IF_ERROR(CheckRunnable(job));
  if (stage.units < 1)
    return InvalidField("units", absl::StrCat(stage.units), "a stage has at least one unit");
  HC_RETURN_IF_ERROR(session.db.Run(
      "INSERT INTO stages (job_id, stage, manifest_digest, units, done_units, total_rows,"
      " done_rows, chunk_bytes) VALUES (?, ?, ?, ?, 0, ?, 0, 0)",
      job.id, number, stage.manifest_digest, stage.units, stage.rows));
  HC_RETURN_IF_ERROR(
      session.db.Run("INSERT INTO stage_plans (job_id, stage, plan) VALUES (?, ?, ?)", job.id,
                     number, Blob{stage.plan.SerializeAsString()}));
  HC_RETURN_IF_ERROR(session.db.Run(
      "INSERT INTO free_units (job_id, stage, first_unit, unit_count) VALUES (?, ?, 0, ?)", job.id,
      number, stage.units));
  for (const ReusedUnit& unit : reused)
    HC_RETURN_IF_ERROR(StoreReused(session, job.id, stage.stage, unit));
  return WriteEvent(session, job, PlannedEvent(stage, static_cast<int64_t>(reused.size())))
      .status();
}

absl::Status ExtendStage(Session& session, const StageRecord& stage) {
  HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, stage.job));
  HC_ASSIGN_OR_RETURN(const std::vector<StageRecord> there,
                      ReadStages(session, stage.job, stage.stage));
  HC_RETURN_IF_ERROR(CheckRunnable(job));
  const int64_t units = there.front().units;
  if (stage.units <= units) {
    return WithReason(absl::AbortedError(absl::StrCat(job.name, " has ", units, " units of stage ",
                                                      Quoted(stage.stage), " already")),
                      "STAGE_CHANGED");
  }
  const int number = static_cast<int>(stage.stage);
  HC_RETURN_IF_ERROR(
      session.db.Run("UPDATE stages SET units = ?, total_rows = ? WHERE job_id = ? AND stage = ?",
                     stage.units, stage.rows, job.id, number));
  HC_RETURN_IF_ERROR(
      session.db.Run("UPDATE stage_plans SET plan = ? WHERE job_id = ? AND stage = ?",
                     Blob{stage.plan.SerializeAsString()}, job.id, number));
  HC_RETURN_IF_ERROR(Free(session, job.id, stage.stage, {units, stage.units - units}));
  return WriteEvent(session, job, PlannedEvent(stage, 0)).status();
}

absl::StatusOr<std::vector<StageRecord>> ReadStages(Session& session, const std::string& name,
                                                    std::optional<Stage> stage) {
  HC_ASSIGN_OR_RETURN(const JobRow job, FindJob(session, name));
  auto rows = session.db.Query(
      "SELECT s.stage, s.manifest_digest, s.units, s.done_units, s.total_rows, s.done_rows, p.plan"
      " FROM stages s JOIN stage_plans p ON p.job_id = s.job_id AND p.stage = s.stage"
      " WHERE s.job_id = ? AND (? < 0 OR s.stage = ?) ORDER BY s.stage",
      job.id, stage.has_value() ? static_cast<int>(*stage) : -1,
      stage.has_value() ? static_cast<int>(*stage) : -1);
  std::vector<StageRecord> records;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) break;
    StageRecord& record = records.emplace_back();
    record.job = name;
    record.stage = static_cast<Stage>(rows->Int(0));
    record.manifest_digest = rows->Text(1);
    record.units = rows->Int(2);
    record.done_units = rows->Int(3);
    record.rows = rows->Int(4);
    record.done_rows = rows->Int(5);
    HC_RETURN_IF_ERROR(rows->Parse(6, "stage plan", &record.plan));
  }
  if (stage.has_value() && records.empty()) {
    return WithReason(
        absl::NotFoundError(absl::StrCat(name, " has no stage ", Quoted(*stage), " yet")),
        "STAGE_NOT_FOUND");
  }
  return records;
}

absl::StatusOr<std::vector<ChunkRecord>> ListChunks(Session& session, const std::string& name,
                                                    Stage stage, int64_t first_unit, int limit) {
  HC_ASSIGN_OR_RETURN(const JobRow job, FindJob(session, name));
  auto rows = session.db.Query(
      "SELECT unit, digest, bytes, counts FROM chunks WHERE job_id = ? AND stage = ? AND unit >= ?"
      " ORDER BY unit LIMIT ?",
      job.id, static_cast<int>(stage), first_unit, std::max(limit, 0));
  std::vector<ChunkRecord> chunks;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return chunks;
    ChunkRecord& chunk = chunks.emplace_back();
    chunk.stage = stage;
    chunk.unit = rows->Int(0);
    chunk.digest = rows->Text(1);
    chunk.bytes = rows->Int(2);
    HC_RETURN_IF_ERROR(rows->Parse(3, "counts of a unit", &chunk.counts));
  }
}

absl::StatusOr<std::vector<std::string>> LiveDigests(Session& session) {
  return Texts(
      session.db.Query("SELECT digest FROM chunks UNION SELECT manifest_digest FROM stages"
                       " WHERE manifest_digest <> '' ORDER BY 1"));
}

absl::Status PutManifestKey(Session& session, const std::string& key, const std::string& digest) {
  return session.db.Run(
      "INSERT INTO manifest_keys (key, digest) VALUES (?, ?)"
      " ON CONFLICT (key) DO UPDATE SET digest = excluded.digest",
      key, digest);
}

absl::StatusOr<std::optional<std::string>> FindManifestKey(Session& session,
                                                           const std::string& key) {
  HC_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                      Texts(session.db.Query("SELECT digest FROM manifest_keys WHERE key = ? AND"
                                             " (digest IN (SELECT digest FROM chunks)"
                                             " OR digest IN (SELECT manifest_digest FROM stages))",
                                             key)));
  if (found.empty()) return std::nullopt;
  return found.front();
}

absl::StatusOr<std::vector<UnitInterval>> FreeUnits(Session& session, int64_t job_id, Stage stage) {
  auto rows = session.db.Query(
      "SELECT first_unit, unit_count FROM free_units WHERE job_id = ? AND stage = ?"
      " ORDER BY first_unit",
      job_id, static_cast<int>(stage));
  std::vector<UnitInterval> intervals;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return intervals;
    intervals.push_back({rows->Int(0), rows->Int(1)});
  }
}

absl::StatusOr<bool> TakeUnits(Session& session, int64_t job_id, Stage stage, UnitInterval units) {
  auto around = session.db.Query(
      "SELECT first_unit, unit_count FROM free_units WHERE job_id = ? AND stage = ?"
      " AND first_unit <= ? ORDER BY first_unit DESC LIMIT 1",
      job_id, static_cast<int>(stage), units.first);
  HC_ASSIGN_OR_RETURN(const bool row, around->Step());
  if (!row) return false;
  const UnitInterval free{around->Int(0), around->Int(1)};
  if (units.count < 1 || units.count > free.first + free.count - units.first) return false;
  const int64_t end = units.first + units.count;
  HC_RETURN_IF_ERROR(EraseFree(session, job_id, stage, free.first));
  HC_RETURN_IF_ERROR(InsertFree(session, job_id, stage, {free.first, units.first - free.first}));
  HC_RETURN_IF_ERROR(InsertFree(session, job_id, stage, {end, free.first + free.count - end}));
  return true;
}

absl::Status FreeUnstored(Session& session, int64_t job_id, Stage stage, UnitInterval units) {
  auto stored = session.db.Query(
      "SELECT unit FROM chunks WHERE job_id = ? AND stage = ? AND unit >= ? AND unit < ?"
      " ORDER BY unit",
      job_id, static_cast<int>(stage), units.first, units.first + units.count);
  int64_t next = units.first;  // the first unit not yet known to be stored or freed
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, stored->Step());
    const int64_t until = row ? stored->Int(0) : units.first + units.count;
    if (until > next) HC_RETURN_IF_ERROR(Free(session, job_id, stage, {next, until - next}));
    if (!row) return absl::OkStatus();
    next = until + 1;
  }
}

absl::StatusOr<int64_t> FirstUnstored(Session& session, int64_t job_id, Stage stage,
                                      UnitInterval units) {
  auto stored = session.db.Query(
      "SELECT unit FROM chunks WHERE job_id = ? AND stage = ? AND unit >= ? AND unit < ?"
      " ORDER BY unit",
      job_id, static_cast<int>(stage), units.first, units.first + units.count);
  for (int64_t unit = units.first; unit < units.first + units.count; ++unit) {
    HC_ASSIGN_OR_RETURN(const bool row, stored->Step());
    if (!row || stored->Int(0) != unit) return unit;
  }
  return -1;
}

}  // namespace headcount::store::sqlite
