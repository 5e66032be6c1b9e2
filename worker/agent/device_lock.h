// The lock file of a device: at most one worker uses it, whichever server started it. Held until
// the object or the process ends; holds the owner's process id as text. Errors: FAILED_PRECONDITION
// (DEVICE_IN_USE) naming the owner, else those of the file system.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace headcount::agent {

class DeviceLock {
 public:
  // Makes the folder and the file where they are missing.
  static absl::StatusOr<std::unique_ptr<DeviceLock>> Take(const std::string& path);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

 private:
  explicit DeviceLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace headcount::agent
