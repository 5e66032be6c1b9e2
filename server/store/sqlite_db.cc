// See sqlite_db.h.

#include "server/store/sqlite_db.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace headcount::store {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = fd >= 0 && fsync(fd) == 0;
  if (fd >= 0) close(fd);
  return ok ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot sync ", folder));
}

}  // namespace

Statement::Statement(Database* db, std::string sql) : db_(db), sql_(std::move(sql)) {
  auto& idle = db_->idle_[sql_];
  if (!idle.empty()) {
    statement_ = idle.back();
    idle.pop_back();
    return;
  }
  const int code = sqlite3_prepare_v3(db_->handle_, sql_.c_str(), static_cast<int>(sql_.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  if (code == SQLITE_OK) return;
  status_ = db_->ToStatus(code, "prepare");
  // The program's SQL is fixed: what does not fit it is the schema in the file.
  if ((code & 0xff) == SQLITE_ERROR) status_ = absl::DataLossError(status_.message());
}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  db_->idle_[sql_].push_back(statement_);
}

void Statement::Keep(int code) {
  if (code != SQLITE_OK && status_.ok()) status_ = db_->ToStatus(code, "bind");
}

void Statement::Bind(int64_t value) {
  if (status_.ok()) Keep(sqlite3_bind_int64(statement_, ++bound_, value));
}

void Statement::Bind(double value) {
  if (status_.ok()) Keep(sqlite3_bind_double(statement_, ++bound_, value));
}

void Statement::Bind(std::string_view text) {
  if (!status_.ok()) return;
  // A null pointer would bind NULL where empty text is meant.
  Keep(sqlite3_bind_text64(statement_, ++bound_, text.empty() ? "" : text.data(), text.size(),
                           SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::Bind(Blob blob) {
  if (!status_.ok()) return;
  Keep(sqlite3_bind_blob64(statement_, ++bound_, blob.bytes.empty() ? "" : blob.bytes.data(),
                           blob.bytes.size(), SQLITE_TRANSIENT));
}

absl::StatusOr<bool> Statement::Step() {
  HC_RETURN_IF_ERROR(status_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return db_->ToStatus(code, "execute");
}

absl::Status Statement::Run() {
  auto row = Step();
  return row.status();
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::Double(int column) const { return sqlite3_column_double(statement_, column); }
bool Statement::Null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return text == nullptr ? std::string() : std::string(text, static_cast<size_t>(size));
}

absl::Status Statement::NotAMessage(std::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(db_->path(), ": the stored ", View(what), " cannot be read"));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         const std::string& vfs) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                                   vfs.empty() ? nullptr : vfs.c_str());
  std::unique_ptr<Database> db(new Database(handle, path));
  if (code != SQLITE_OK) return db->ToStatus(code, "open");
  sqlite3_extended_result_codes(handle, 1);
  // The schema is data: a damaged or planted one must not call functions with side effects.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return db;
}

Database::~Database() {
  for (auto& [sql, statements] : idle_) {
    for (sqlite3_stmt* statement : statements) sqlite3_finalize(statement);
  }
  sqlite3_close_v2(handle_);
}

absl::Status Database::Script(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ToStatus(code, "execute");
}

absl::StatusOr<int64_t> Database::ReadInt(std::string sql) {
  auto query = Query(std::move(sql));
  HC_ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row) return absl::InternalError(absl::StrCat(path_, ": a query answered no row"));
  return query->Int(0);
}

absl::Status Database::Begin() { return Run("BEGIN IMMEDIATE"); }

absl::Status Database::Commit() {
  absl::Status status = Run("COMMIT");
  if (!status.ok()) Rollback();
  return status;
}

void Database::Rollback() {
  // Some errors have rolled back already. If the rollback itself fails there is nothing left to
  // try: the change is not in the file, and the next call meets the same fault.
  if (sqlite3_get_autocommit(handle_) == 0) (void)Run("ROLLBACK");
}

void Database::CheckpointOnClose(bool on) {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, nullptr);
}

absl::Status Database::CopyTo(const std::string& path) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  std::remove(temporary.c_str());
  {
    HC_ASSIGN_OR_RETURN(auto copy, Open(temporary));
    HC_RETURN_IF_ERROR(copy->Script("PRAGMA synchronous=FULL"));
    sqlite3_backup* backup = sqlite3_backup_init(copy->handle_, "main", handle_, "main");
    if (backup == nullptr)
      return copy->ToStatus(sqlite3_extended_errcode(copy->handle_), "copy to");
    int code = sqlite3_backup_step(backup, -1);
    const int finish = sqlite3_backup_finish(backup);
    if (code == SQLITE_DONE) code = finish;
    if (code != SQLITE_OK) return copy->ToStatus(code, "copy to");
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return absl::UnavailableError(absl::StrCat("cannot rename ", temporary, " to ", path));
  return SyncFolderOf(path);
}

absl::Status Database::ToStatus(int code, std::string_view doing) const {
  const std::string message = absl::StrCat(
      path_, ": cannot ", View(doing), ": ",
      handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_), " (SQLite ", code, ")");
  switch (code) {
    case SQLITE_IOERR_NOMEM:
      return absl::ResourceExhaustedError(message);
    case SQLITE_IOERR_CORRUPTFS:
    case SQLITE_IOERR_DATA:
      return absl::DataLossError(message);
    default:
      break;
  }
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_PROTOCOL:
      return absl::UnavailableError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return absl::DataLossError(message);
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace headcount::store
