// A thin layer over SQLite's C interface: one connection, prepared statements that are kept, one
// transaction at a time, SQLite's result codes as absl::Status. Knows nothing of jobs.
//
// Not thread-safe: the owner holds its lock around every use. Errors, from SQLite's codes: FULL and
// out of memory RESOURCE_EXHAUSTED, BUSY and LOCKED UNAVAILABLE, CORRUPT and NOTADB DATA_LOSS,
// input and output errors UNAVAILABLE, a file that cannot be opened or written FAILED_PRECONDITION,
// the rest INTERNAL. Messages name the file and say what SQLite said, never values.

#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount::store {

// Bytes to bind as a BLOB; plain strings are bound as TEXT.
struct Blob {
  std::string_view bytes;
};

class Database;

// A statement taken from the connection's pool; goes back when destroyed. The first error of
// preparing or binding is kept and answered by Step.
class Statement {
 public:
  Statement(Database* db, std::string sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Bind in order, parameter 1 first.
  void Bind(int64_t value);
  void Bind(int value) { Bind(static_cast<int64_t>(value)); }
  void Bind(double value);
  void Bind(std::string_view text);
  void Bind(const std::string& text) { Bind(std::string_view(text)); }
  void Bind(const char* text) { Bind(std::string_view(text)); }
  void Bind(Blob blob);

  // True: a row is there to read.
  absl::StatusOr<bool> Step();
  // For statements that answer no rows.
  absl::Status Run();

  // Columns from 0 of the present row.
  int64_t Int(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;
  bool Null(int column) const;
  // Parses a BLOB column; DATA_LOSS naming `what` when it is not that message.
  template <class Message>
  absl::Status Parse(int column, std::string_view what, Message* message) const {
    if (message->ParseFromArray(sqlite3_column_blob(statement_, column),
                                sqlite3_column_bytes(statement_, column))) {
      return absl::OkStatus();
    }
    return NotAMessage(what);
  }

 private:
  void Keep(int code);
  absl::Status NotAMessage(std::string_view what) const;

  Database* db_;
  std::string sql_;
  sqlite3_stmt* statement_ = nullptr;
  absl::Status status_;
  int bound_ = 0;
};

class Database {
 public:
  // Opens or creates. ":memory:" is a database of its own. `vfs` names a registered file system
  // (empty: the default); tests pass one that fails.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        const std::string& vfs = "");
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // A statement with its parameters bound.
  template <class... Values>
  std::unique_ptr<Statement> Query(std::string sql, const Values&... values) {
    auto statement = std::make_unique<Statement>(this, std::move(sql));
    (statement->Bind(values), ...);
    return statement;
  }
  // One statement that answers no rows.
  template <class... Values>
  absl::Status Run(std::string sql, const Values&... values) {
    return Query(std::move(sql), values...)->Run();
  }
  // Any number of statements without parameters.
  absl::Status Script(const std::string& sql);
  // The one integer that `sql` answers.
  absl::StatusOr<int64_t> ReadInt(std::string sql);

  absl::Status Begin();   // takes the write lock at once
  absl::Status Commit();  // on an error the transaction is rolled back
  void Rollback();
  int64_t LastRowId() const { return sqlite3_last_insert_rowid(handle_); }
  // The last call failed because another connection has the file.
  bool Busy() const { return (sqlite3_errcode(handle_) & 0xff) == SQLITE_BUSY; }
  int64_t Changes() const { return sqlite3_changes64(handle_); }

  // Whether closing may write what is in the log into the file; on from the start. Off while it is
  // not known that the file is ours.
  void CheckpointOnClose(bool on);
  // Copies the whole database to `path`, durable when it returns.
  absl::Status CopyTo(const std::string& path);

  const std::string& path() const { return path_; }
  absl::Status ToStatus(int code, std::string_view doing) const;

 private:
  friend class Statement;
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  sqlite3* handle_;
  std::string path_;
  std::unordered_map<std::string, std::vector<sqlite3_stmt*>> idle_;
};

}  // namespace headcount::store
