// See memory_vfs.h.

#include "tests/server/store/memory_vfs.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace headcount::store {

// The functions that SQLite calls, in one place that MemoryVfs is open to.
struct MemoryVfsCalls {
  struct Handle {
    sqlite3_file base;  // first, as SQLite requires
    MemoryVfs* vfs;
    std::string* path;
  };

  static MemoryVfs& Of(sqlite3_vfs* vfs) { return *static_cast<MemoryVfs*>(vfs->pAppData); }
  static Handle& Of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
  static MemoryVfs::File& FileOf(sqlite3_file* file) {
    return Of(file).vfs->files_[*Of(file).path];
  }

  static int Close(sqlite3_file* file) {
    delete Of(file).path;
    return SQLITE_OK;
  }

  static int Read(sqlite3_file* file, void* out, int count, sqlite3_int64 offset) {
    const std::string& bytes = FileOf(file).bytes;
    const int64_t size = static_cast<int64_t>(bytes.size());
    const int64_t there = std::clamp<int64_t>(size - offset, 0, count);
    if (there > 0) std::memcpy(out, bytes.data() + offset, there);
    if (there == count) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + there, 0, count - there);
    return SQLITE_IOERR_SHORT_READ;
  }

  static int Write(sqlite3_file* file, const void* in, int count, sqlite3_int64 offset) {
    MemoryVfs& vfs = *Of(file).vfs;
    if (vfs.Fails()) {
      return vfs.fault_ == MemoryVfs::Fault::kDiskFull ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    MemoryVfs::File& target = FileOf(file);
    if (static_cast<int64_t>(target.bytes.size()) < offset + count)
      target.bytes.resize(offset + count, '\0');
    std::memcpy(target.bytes.data() + offset, in, count);
    target.written.emplace_back(offset, std::string(static_cast<const char*>(in), count));
    return SQLITE_OK;
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    MemoryVfs& vfs = *Of(file).vfs;
    if (vfs.Fails()) {
      return vfs.fault_ == MemoryVfs::Fault::kDiskFull ? SQLITE_FULL : SQLITE_IOERR_TRUNCATE;
    }
    MemoryVfs::File& target = FileOf(file);
    target.bytes.resize(std::min<size_t>(target.bytes.size(), size));
    return SQLITE_OK;
  }

  static int Sync(sqlite3_file* file, int) {
    if (Of(file).vfs->Fails()) return SQLITE_IOERR_FSYNC;
    MemoryVfs::File& target = FileOf(file);
    target.synced = target.bytes;
    target.written.clear();
    return SQLITE_OK;
  }

  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    *size = static_cast<sqlite3_int64>(FileOf(file).bytes.size());
    return SQLITE_OK;
  }

  static int Lock(sqlite3_file*, int) { return SQLITE_OK; }
  static int CheckReservedLock(sqlite3_file*, int* reserved) {
    *reserved = 0;
    return SQLITE_OK;
  }
  static int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int SectorSize(sqlite3_file*) { return 512; }
  // None: SQLite may assume nothing about this disk.
  static int DeviceCharacteristics(sqlite3_file*) { return 0; }

  static int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags,
                  int* out_flags) {
    static const sqlite3_io_methods methods = {1,
                                               Close,
                                               Read,
                                               Write,
                                               Truncate,
                                               Sync,
                                               FileSize,
                                               Lock,
                                               Lock,
                                               CheckReservedLock,
                                               FileControl,
                                               SectorSize,
                                               DeviceCharacteristics};
    MemoryVfs& self = Of(vfs);
    Handle& handle = Of(file);
    handle.base.pMethods = nullptr;
    const std::string name = path == nullptr ? "temporary" : path;
    if (!self.files_.contains(name) && (flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
    self.files_.try_emplace(name);
    handle.vfs = &self;
    handle.path = new std::string(name);
    handle.base.pMethods = &methods;
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }

  static int Delete(sqlite3_vfs* vfs, const char* path, int) {
    Of(vfs).files_.erase(path);
    return SQLITE_OK;
  }

  static int Access(sqlite3_vfs* vfs, const char* path, int, int* there) {
    *there = Of(vfs).files_.contains(path);
    return SQLITE_OK;
  }

  static int FullPathname(sqlite3_vfs*, const char* path, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", path);
    return SQLITE_OK;
  }
};

MemoryVfs::MemoryVfs() {
  static int count = 0;
  name_ = absl::StrCat("memory-", ++count);
  vfs_ = *sqlite3_vfs_find(nullptr);  // time, randomness and sleep are the default's
  vfs_.iVersion = 1;
  vfs_.szOsFile = sizeof(MemoryVfsCalls::Handle);
  vfs_.pNext = nullptr;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = MemoryVfsCalls::Open;
  vfs_.xDelete = MemoryVfsCalls::Delete;
  vfs_.xAccess = MemoryVfsCalls::Access;
  vfs_.xFullPathname = MemoryVfsCalls::FullPathname;
  sqlite3_vfs_register(&vfs_, 0);
}

MemoryVfs::~MemoryVfs() { sqlite3_vfs_unregister(&vfs_); }

void MemoryVfs::FailAt(int64_t k, Fault fault, bool forever) {
  operations_ = 0;
  failed_ = 0;
  fail_at_ = k;
  fault_ = fault;
  forever_ = forever;
}

bool MemoryVfs::Fails() {
  ++operations_;
  const bool fails = fail_at_ > 0 && (forever_ ? operations_ >= fail_at_ : operations_ == fail_at_);
  failed_ += fails;
  return fails;
}

void MemoryVfs::LosePower(uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto& [path, file] : files_) {
    std::string bytes = file.synced;
    for (auto& [offset, written] : file.written) {
      const int fate = static_cast<int>(random() % 4);
      if (fate == 0) continue;  // gone
      size_t count = written.size();
      if (fate == 1) count = random() % (count + 1);  // torn
      std::string there = written.substr(0, count);
      if (fate == 2) {  // what was under the head became garbage
        for (char& c : there) c = static_cast<char>(random());
      }
      if (bytes.size() < offset + count) bytes.resize(offset + count, '\0');
      bytes.replace(offset, count, there);
    }
    file.bytes = bytes;
    file.synced = bytes;
    file.written.clear();
  }
}

}  // namespace headcount::store
