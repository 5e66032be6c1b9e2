// A file mapped for reading from front to back, window by window. Used by CheckpointReader.
//
// Touching a mapped page that the file no longer has raises SIGBUS. So a window is first made
// resident by the kernel, which answers with an error where a touch would have been a signal, and
// the file's size and time of change are looked at again when the window has been used. What is
// left is a file cut short within the milliseconds between the two: then the process dies, its
// task goes to the next worker, and the load there says what is wrong with the file.
//
// The mapping lasts as long as the reading. Weights that stay mapped would load in no time, and
// several workers would share them, but whoever writes over the file, as `cp` does, would change
// the numbers of running jobs without anybody noticing.
//
// Errors: NOT_FOUND (no such file), DATA_LOSS (it ends too early, it cannot be read, it has changed
// since it was opened). One thread at a time.

#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount::engine {

class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // The bytes [offset, offset + count), resident. Nothing of the window before it is kept.
  absl::StatusOr<const char*> Window(uint64_t offset, uint64_t count);
  // To be called once what Window gave has been used: OK when it was what the file held.
  absl::Status CheckUnchanged() const;

 private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}
  void Release();

  const std::string path_;
  int fd_ = -1;
  struct stat opened_{};
  char* data_ = nullptr;
  uint64_t window_begin_ = 0;  // whole pages
  uint64_t window_bytes_ = 0;
};

}  // namespace headcount::engine
