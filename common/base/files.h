// Small files, read and written whole. Errors name the path: NOT_FOUND, PERMISSION_DENIED,
// RESOURCE_EXHAUSTED (disk full or over a limit), INTERNAL otherwise. Thread-safe as far as the
// file system is.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount {

// The whole file; RESOURCE_EXHAUSTED when it holds more than `limit` bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit = uint64_t{1} << 32);

// Writes to a temporary file beside `path`, fsyncs it, renames it, fsyncs the folder: after OK the
// file survives a crash, before it nobody sees a part of it.
absl::Status WriteFileDurably(const std::string& path, std::string_view bytes);

}  // namespace headcount
