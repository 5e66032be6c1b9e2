// Rows of a Parquet file as JSON objects of column -> value: what task templates see of it. Text,
// numbers, booleans, nulls, lists and structs are themselves; dictionary-encoded columns are what
// they stand for; anything else (dates, decimals) is its text.
//
// Used by the worker, which renders tasks, and by the server, which counts documents. Thread-safe.
// Errors name the file: NOT_FOUND where it is missing, INVALID_ARGUMENT where it is no Parquet file
// or is damaged.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headcount::parquet_rows {

// At most `limit` rows; 0: all.
absl::StatusOr<std::vector<nlohmann::json>> Read(const std::string& path, int64_t limit = 0);

// From the file's footer alone.
absl::StatusOr<int64_t> Count(const std::string& path);

}  // namespace headcount::parquet_rows
