// See dataset.h.

#include "worker/eval/dataset.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "worker/eval/csv.h"
#include "worker/eval/unicode.h"

namespace headcount::eval {
namespace {

absl::StatusOr<std::vector<nlohmann::json>> ParseJsonLines(std::string_view text,
                                                           const std::string& where,
                                                           int64_t limit) {
  std::vector<nlohmann::json> rows;
  int64_t line = 0;
  while (!text.empty() && (limit == 0 || static_cast<int64_t>(rows.size()) < limit)) {
    const size_t end = text.find('\n');
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    nlohmann::json row = nlohmann::json::parse(one, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": line ", line, " is not a JSON object"));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<std::vector<nlohmann::json>> ParseCsvRows(std::string_view text,
                                                         const std::string& where,
                                                         const std::vector<std::string>& columns,
                                                         int64_t limit) {
  auto fields = ParseCsv(text);
  if (!fields.ok()) return Annotate(fields.status(), where);
  if (limit > 0 && static_cast<int64_t>(fields->size()) > limit) fields->resize(limit);
  std::vector<nlohmann::json> rows;
  rows.reserve(fields->size());
  for (size_t i = 0; i < fields->size(); ++i) {
    std::vector<std::string>& values = (*fields)[i];
    if (values.size() != columns.size()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": row ", i, " has ", values.size(),
                                                     " columns; the task file names ",
                                                     columns.size()));
    }
    nlohmann::json row = nlohmann::json::object();
    for (size_t c = 0; c < columns.size(); ++c) row[columns[c]] = std::move(values[c]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<nlohmann::json>> ParseRows(std::string_view text,
                                                      const std::string& where,
                                                      tasks::FileFormat format,
                                                      const std::vector<std::string>& columns,
                                                      int64_t limit) {
  if (const auto bad = FindInvalidUtf8(text); bad.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": byte ", *bad, " is not UTF-8"));
  }
  return format == tasks::FileFormat::kCsv ? ParseCsvRows(text, where, columns, limit)
                                           : ParseJsonLines(text, where, limit);
}

absl::StatusOr<std::vector<nlohmann::json>> ReadRows(const std::string& path,
                                                     tasks::FileFormat format,
                                                     const std::vector<std::string>& columns,
                                                     int64_t limit) {
  HC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseRows(text, path, format, columns, limit);
}

}  // namespace headcount::eval
