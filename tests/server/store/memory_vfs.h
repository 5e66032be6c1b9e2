// A file system for SQLite that lies in memory, fails where it is told to, and can lose its power:
// what was written since a file's last sync is then partly there, partly torn, partly gone, as on a
// real disk. Files stay when a database is closed, so a test can open it again.
//
// One connection at a time, from one thread; locks are not kept.

#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace headcount::store {

class MemoryVfs {
 public:
  enum class Fault {
    kIoError,   // SQLITE_IOERR_WRITE, _FSYNC, _TRUNCATE
    kDiskFull,  // writes and truncations SQLITE_FULL, syncs SQLITE_IOERR_FSYNC
  };

  // Registers itself under a name of its own until it is destroyed.
  MemoryVfs();
  ~MemoryVfs();
  MemoryVfs(const MemoryVfs&) = delete;
  MemoryVfs& operator=(const MemoryVfs&) = delete;
  const std::string& name() const { return name_; }

  // The k-th (from 1) write, sync or truncation from now on fails; with `forever` all later ones
  // too.
  void FailAt(int64_t k, Fault fault, bool forever);
  void Heal() { fail_at_ = 0; }
  int64_t operations() const { return operations_; }  // since FailAt
  int64_t failed() const { return failed_; }

  // Decides for every write since its file's last sync whether it is there, half there, garbage or
  // gone. Only while no database is open.
  void LosePower(uint64_t seed);

  std::string& Contents(const std::string& path) { return files_[path].bytes; }
  bool Exists(const std::string& path) const { return files_.contains(path); }
  void Remove(const std::string& path) { files_.erase(path); }

 private:
  friend struct MemoryVfsCalls;
  struct File {
    std::string bytes;
    std::string synced;                                    // as at the last sync
    std::vector<std::pair<int64_t, std::string>> written;  // since then: offset, bytes
  };

  // Counts an operation; true when it must fail.
  bool Fails();

  std::string name_;
  sqlite3_vfs vfs_{};
  std::map<std::string, File> files_;
  int64_t operations_ = 0;
  int64_t fail_at_ = 0;
  int64_t failed_ = 0;
  Fault fault_ = Fault::kIoError;
  bool forever_ = false;
};

}  // namespace headcount::store
