// Fixed heads from a file: a matrix layers x heads in which what is not 0 is inactive. JSON (a list
// of lists of numbers or booleans) or NumPy's .npy (two dimensions, C order; booleans, integers or
// floats). Reads the file; else pure. Errors: NOT_FOUND for the file, INVALID_ARGUMENT naming it
// and what is wrong.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::cli {

absl::StatusOr<v1::FixedHeads> ReadMaskFile(const std::string& path);

// The same from bytes; `name` is what errors call them.
absl::StatusOr<v1::FixedHeads> ParseMask(std::string_view bytes, const std::string& name);

}  // namespace headcount::cli
