// The schema of the SQLite store and how it changes: a list of numbered migrations, only ever
// appended to. Called by SqliteJobStore when it opens a file; tests pass lists of their own.
//
// The number of the last one applied is the file's schema version (PRAGMA user_version). Not
// thread-safe. Errors: FAILED_PRECONDITION for a newer schema (both numbers) or a file that is not
// ours, then nothing was written; UNAVAILABLE when another process has the file; DATA_LOSS for a
// damaged one.

#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "server/store/sqlite_db.h"

namespace headcount::store {

// "HCNT" in PRAGMA application_id: what tells our files from other SQLite files.
inline constexpr int64_t kApplicationId = 0x48434e54;

struct Migration {
  int version;      // 1, 2, ... without gaps
  const char* sql;  // statements without parameters, run inside the one transaction
};

std::span<const Migration> Migrations();

// Takes the file for this process alone, checks that it is whole and ours, and brings it to the
// last version of `migrations` in one transaction. An older file is first copied to
// "<path>.v<its version>.bak".
absl::Status OpenSchema(Database& db, std::span<const Migration> migrations = Migrations());

}  // namespace headcount::store
