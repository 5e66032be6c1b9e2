// A reader of comma-separated text (RFC 4180), as Python's csv module reads it: quoted fields may
// hold commas, doubled quotes and line breaks, which are kept byte for byte; rows end with LF, CRLF
// or CR; the end after the last row may be missing; blank lines are no rows; a byte order mark in
// front is skipped. A quote inside an unquoted field is an ordinary character.
//
// Used by worker/eval/dataset. Pure function. Errors: INVALID_ARGUMENT naming the line, for a quote
// that is never closed or text after a closing one.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headcount::eval {

absl::StatusOr<std::vector<std::vector<std::string>>> ParseCsv(std::string_view text);

}  // namespace headcount::eval
