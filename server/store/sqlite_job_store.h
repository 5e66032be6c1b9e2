// The embedded JobStore: one SQLite file, used by one headcountd at a time. What each call promises
// is in job_store.h.
//
// Thread-safe: calls are serialised by one lock, each is one transaction, and an OK to a write
// means that it has been synced (WAL, synchronous=FULL). Renewing a lease writes nothing: when a
// lease ends is kept in memory, and a store that is opened gives each live one a fresh term.

#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "server/store/job_store.h"
#include "server/store/migrations.h"

namespace headcount::store {

class SqliteJobStore {
 public:
  struct Options {
    std::string vfs;  // name of a registered SQLite file system; empty: the default
    std::span<const Migration> migrations = Migrations();
    int checkpoint_pages = 1000;  // the log is moved into the file when it holds so many
  };

  // Creates the file where it is missing, migrates an older one after copying it to
  // "<path>.v<N>.bak"; ":memory:" is a database that ends with the store. FAILED_PRECONDITION: a
  // newer schema (both numbers), not ours, or not writable. UNAVAILABLE: another headcountd has it.
  // DATA_LOSS: damaged. `clock` must outlive the store.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& path, Clock& clock);
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& path, Clock& clock,
                                                        const Options& options);
};

}  // namespace headcount::store
