// See migrations.h.

#include "server/store/migrations.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace headcount::store {
namespace {

// Times are nanoseconds since the Unix epoch, 0: not yet. What is long (specs, plans) has tables of
// its own, so that the rows that change with every unit stay short.
constexpr char kVersion1[] = R"sql(
CREATE TABLE jobs (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,  -- in order of creation, never used again
  name          TEXT NOT NULL UNIQUE,
  project       TEXT NOT NULL,
  uid           TEXT NOT NULL,
  owner         TEXT NOT NULL,
  parent        TEXT NOT NULL,
  model         TEXT NOT NULL,
  priority      INTEGER NOT NULL,
  state         INTEGER NOT NULL CHECK (state BETWEEN 1 AND 8),
  state_reason  TEXT NOT NULL,
  revision      INTEGER NOT NULL CHECK (revision >= 1),  -- the etag
  attempt       INTEGER NOT NULL CHECK (attempt >= 0),
  last_sequence INTEGER NOT NULL CHECK (last_sequence >= 0),
  create_time   INTEGER NOT NULL,
  start_time    INTEGER NOT NULL,
  end_time      INTEGER NOT NULL,
  update_time   INTEGER NOT NULL,
  expire_time   INTEGER NOT NULL,
  error         BLOB NOT NULL,       -- google.rpc.Status, empty: none
  provenance    BLOB NOT NULL        -- headcount.v1.Provenance, empty: none
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_owner ON jobs (owner, id);

CREATE TABLE job_specs (
  job_id INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  spec   BLOB NOT NULL               -- headcount.v1.Job with only the spec and labels
) STRICT;

CREATE TABLE job_labels (
  job_id INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  key    TEXT NOT NULL,
  value  TEXT NOT NULL,
  PRIMARY KEY (job_id, key)
) STRICT, WITHOUT ROWID;

-- Outlives its job: a client that asks again must not get a second one.
CREATE TABLE requests (
  owner       TEXT NOT NULL,
  request_id  TEXT NOT NULL,
  body_digest TEXT NOT NULL,
  job         TEXT NOT NULL,
  PRIMARY KEY (owner, request_id)
) STRICT, WITHOUT ROWID;

-- So that a page that ended with a job since deleted can be followed by the next, and names are
-- never used again.
CREATE TABLE deleted_jobs (
  name TEXT PRIMARY KEY,
  id   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE stages (
  job_id          INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  stage           INTEGER NOT NULL CHECK (stage BETWEEN 0 AND 2),
  manifest_digest TEXT NOT NULL,
  units           INTEGER NOT NULL CHECK (units >= 1),
  done_units      INTEGER NOT NULL CHECK (done_units BETWEEN 0 AND units),
  total_rows      INTEGER NOT NULL CHECK (total_rows >= 0),
  done_rows       INTEGER NOT NULL CHECK (done_rows >= 0),
  chunk_bytes     INTEGER NOT NULL CHECK (chunk_bytes >= 0),
  PRIMARY KEY (job_id, stage)
) STRICT, WITHOUT ROWID;

CREATE TABLE stage_plans (
  job_id INTEGER NOT NULL,
  stage  INTEGER NOT NULL,
  plan   BLOB NOT NULL,              -- headcount.v1.StagePlan
  PRIMARY KEY (job_id, stage),
  FOREIGN KEY (job_id, stage) REFERENCES stages ON DELETE CASCADE
) STRICT;

-- The units that are neither stored nor leased, as intervals that never touch.
CREATE TABLE free_units (
  job_id     INTEGER NOT NULL,
  stage      INTEGER NOT NULL,
  first_unit INTEGER NOT NULL CHECK (first_unit >= 0),
  unit_count INTEGER NOT NULL CHECK (unit_count >= 1),
  PRIMARY KEY (job_id, stage, first_unit),
  FOREIGN KEY (job_id, stage) REFERENCES stages ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE chunks (
  job_id  INTEGER NOT NULL,
  stage   INTEGER NOT NULL,
  unit    INTEGER NOT NULL CHECK (unit >= 0),
  attempt INTEGER NOT NULL,          -- the lease that stored it
  digest  TEXT NOT NULL,
  bytes   INTEGER NOT NULL CHECK (bytes >= 0),
  counts  BLOB NOT NULL,             -- headcount.v1.UnitCounts
  PRIMARY KEY (job_id, stage, unit),
  FOREIGN KEY (job_id, stage) REFERENCES stages ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX chunks_by_digest ON chunks (digest);

CREATE TABLE leases (
  job_id       INTEGER NOT NULL,
  attempt      INTEGER NOT NULL CHECK (attempt >= 1),
  stage        INTEGER NOT NULL,
  first_unit   INTEGER NOT NULL CHECK (first_unit >= 0),
  unit_count   INTEGER NOT NULL CHECK (unit_count >= 1),
  stored_units INTEGER NOT NULL CHECK (stored_units BETWEEN 0 AND unit_count),
  worker       TEXT NOT NULL,
  term         INTEGER NOT NULL,     -- nanoseconds; when it ends is known to the running server only
  live         INTEGER NOT NULL CHECK (live IN (0, 1)),
  failures     INTEGER NOT NULL,     -- of failed_unit when the lease ended
  failed_unit  INTEGER NOT NULL,     -- -1: none
  PRIMARY KEY (job_id, attempt),
  FOREIGN KEY (job_id, stage) REFERENCES stages ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX live_leases ON leases (job_id, attempt) WHERE live = 1;

-- Leases in a row that stopped at this unit by a crash or silence.
CREATE TABLE unit_failures (
  job_id   INTEGER NOT NULL,
  stage    INTEGER NOT NULL,
  unit     INTEGER NOT NULL,
  failures INTEGER NOT NULL CHECK (failures >= 1),
  PRIMARY KEY (job_id, stage, unit),
  FOREIGN KEY (job_id, stage) REFERENCES stages ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  job_id   INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  time     INTEGER NOT NULL,
  event    BLOB NOT NULL,            -- headcount.v1.JobEvent without sequence and time
  PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE once_keys (
  job_id INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  key    TEXT NOT NULL,
  PRIMARY KEY (job_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE manifest_keys (
  key    TEXT PRIMARY KEY,
  digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
  owner   TEXT PRIMARY KEY,
  seconds REAL NOT NULL CHECK (seconds >= 0)
) STRICT, WITHOUT ROWID;
)sql";

constexpr char kVersion2[] = R"sql(
-- Rows of stored chunks by what they were computed from; what it leads to may be gone.
CREATE TABLE row_keys (
  key         TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  digest      TEXT NOT NULL,         -- of the chunk
  row         INTEGER NOT NULL CHECK (row >= 0),
  PRIMARY KEY (key, device_kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX row_keys_by_digest ON row_keys (digest);

-- How many units of a stage another job had computed.
CREATE TABLE reused_units (
  job_id INTEGER NOT NULL,
  stage  INTEGER NOT NULL,
  source TEXT NOT NULL,              -- name of that job, which may have been deleted since
  units  INTEGER NOT NULL CHECK (units >= 1),
  PRIMARY KEY (job_id, stage, source),
  FOREIGN KEY (job_id, stage) REFERENCES stages ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
)sql";

constexpr Migration kMigrations[] = {{1, kVersion1}, {2, kVersion2}};

// The first access takes the lock, and in this mode it is kept until the file is closed.
absl::Status TakeFile(Database& db) {
  HC_RETURN_IF_ERROR(db.Script("PRAGMA locking_mode=EXCLUSIVE"));
  auto version = db.ReadInt("PRAGMA user_version");
  absl::Status status = version.status();
  if (status.ok()) {
    // Files that are not in WAL mode yet are locked by a write transaction only.
    status = db.Script("BEGIN EXCLUSIVE; ROLLBACK");
  }
  if (!status.ok() && db.Busy()) {
    return absl::UnavailableError(absl::StrCat(
        db.path(), ": in use by another headcountd; only one server at a time may have it"));
  }
  return status;
}

absl::Status CheckWhole(Database& db) {
  auto check = db.Query("PRAGMA quick_check(1)");
  HC_ASSIGN_OR_RETURN(const bool row, check->Step());
  const std::string found = row ? check->Text(0) : "no answer";
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(db.path(), ": the database is damaged: ", found));
}

}  // namespace

namespace {

absl::StatusOr<std::string> SchemaText(Database& db) {
  auto rows = db.Query(
      "SELECT coalesce(group_concat(sql, ';'), '') FROM"
      " (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name)");
  HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
  return row ? rows->Text(0) : std::string();
}

absl::Status Apply(Database& db, std::span<const Migration> migrations, int64_t after) {
  for (const Migration& migration : migrations) {
    if (migration.version > after) HC_RETURN_IF_ERROR(db.Script(migration.sql));
  }
  return absl::OkStatus();
}

// The tables are those that the migrations up to `version` make.
absl::Status CheckSchema(Database& db, std::span<const Migration> migrations, int64_t version) {
  HC_ASSIGN_OR_RETURN(auto model, Database::Open(":memory:"));
  HC_RETURN_IF_ERROR(Apply(*model, migrations.first(static_cast<size_t>(version)), 0));
  HC_ASSIGN_OR_RETURN(const std::string expected, SchemaText(*model));
  HC_ASSIGN_OR_RETURN(const std::string found, SchemaText(db));
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      db.path(), ": the database is damaged: its tables are not those of schema version ",
      version));
}

}  // namespace

std::span<const Migration> Migrations() { return kMigrations; }

absl::Status OpenSchema(Database& db, std::span<const Migration> migrations) {
  db.CheckpointOnClose(false);
  HC_RETURN_IF_ERROR(TakeFile(db));
  HC_ASSIGN_OR_RETURN(const int64_t version, db.ReadInt("PRAGMA user_version"));
  HC_ASSIGN_OR_RETURN(const int64_t application, db.ReadInt("PRAGMA application_id"));
  HC_ASSIGN_OR_RETURN(const int64_t tables, db.ReadInt("SELECT count(*) FROM sqlite_schema"));
  const int newest = migrations.back().version;
  const bool fresh = version == 0 && application == 0 && tables == 0;
  if (!fresh && application != kApplicationId) {
    return absl::FailedPreconditionError(
        absl::StrCat(db.path(), ": not a headcount database (application id ", application, ")"));
  }
  if (version > newest) {
    return absl::FailedPreconditionError(absl::StrCat(db.path(), ": written in schema version ",
                                                      version, ", this build knows up to ", newest,
                                                      "; use a newer headcountd"));
  }
  if (!fresh && version < 1) {
    return absl::DataLossError(
        absl::StrCat(db.path(), ": the database is damaged: schema version ", version));
  }
  HC_RETURN_IF_ERROR(CheckWhole(db));
  if (!fresh) HC_RETURN_IF_ERROR(CheckSchema(db, migrations, version));
  if (!fresh && version < newest && db.path() != ":memory:")
    HC_RETURN_IF_ERROR(db.CopyTo(absl::StrCat(db.path(), ".v", version, ".bak")));

  // FULL: a commit is on disk before it is answered; NORMAL may lose it when power fails.
  HC_RETURN_IF_ERROR(db.Script("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"));
  if (version < newest) {
    HC_RETURN_IF_ERROR(db.Begin());
    absl::Status status = Apply(db, migrations, version);
    if (status.ok()) {
      status = db.Script(
          absl::StrCat("PRAGMA application_id=", kApplicationId, "; PRAGMA user_version=", newest));
    }
    if (!status.ok()) {
      db.Rollback();
      return status;
    }
    HC_RETURN_IF_ERROR(db.Commit());
  }
  // After the migrations, because one that rebuilds a table must be able to drop the old one.
  HC_RETURN_IF_ERROR(db.Script("PRAGMA foreign_keys=ON"));
  db.CheckpointOnClose(true);
  return absl::OkStatus();
}

}  // namespace headcount::store
