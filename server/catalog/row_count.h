// Counts the rows of a text file without understanding them: what ListTasks shows as documents.
// Thread-safe. Errors: those of reading a file.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/tasks/task_definition.h"

namespace headcount::server {

// Records of a CSV (a line break inside quotes is part of one), lines of a JSONL, paragraphs of a
// text; blank lines do not count.
int64_t CountRows(std::string_view bytes, tasks::FileFormat format);

// Not of a Parquet file.
absl::StatusOr<int64_t> CountFileRows(const std::string& path, tasks::FileFormat format);

}  // namespace headcount::server
