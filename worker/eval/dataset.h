// The rows of one split of a data set, as JSON objects of column -> value: what task templates see.
// Row numbers, here and in sample ids, count from 0 in file order.
//
// Used by worker/eval/render. Errors name the file and the row: NOT_FOUND for a missing file,
// INVALID_ARGUMENT for text that is not UTF-8, rows with another number of columns than the task
// file says, and lines that are no JSON object.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tasks/task_definition.h"
#include "nlohmann/json.hpp"

namespace headcount::eval {

// `columns` names the fields of a CSV file, which has no header line; the others ignore it. Blank
// lines are no rows. At most `limit` rows; 0: all.
absl::StatusOr<std::vector<nlohmann::json>> ReadRows(const std::string& path,
                                                     tasks::FileFormat format,
                                                     const std::vector<std::string>& columns,
                                                     int64_t limit = 0);

// The same from text, not of a Parquet file; `where` names it in errors. Of plain text each
// paragraph is a row {"text": ...}; blank lines part them.
absl::StatusOr<std::vector<nlohmann::json>> ParseRows(std::string_view text,
                                                      const std::string& where,
                                                      tasks::FileFormat format,
                                                      const std::vector<std::string>& columns,
                                                      int64_t limit = 0);

}  // namespace headcount::eval
