// See dataset.h.

#include "worker/eval/dataset.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/parquet/parquet_rows.h"
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

std::vector<nlohmann::json> ParseParagraphs(std::string_view text, int64_t limit) {
  std::vector<nlohmann::json> rows;
  std::string paragraph;
  const auto close = [&] {
    if (!paragraph.empty() && (limit == 0 || static_cast<int64_t>(rows.size()) < limit)) {
      rows.push_back({{"text", paragraph}});
    }
    paragraph.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      close();
      continue;
    }
    if (!paragraph.empty()) paragraph += '\n';
    paragraph += line;
  }
  close();
  return rows;
}

// All text in it.
bool IsUtf8(const nlohmann::json& value) {
  if (value.is_string()) return !FindInvalidUtf8(value.get_ref<const std::string&>()).has_value();
  return !value.is_structured() || std::all_of(value.begin(), value.end(), IsUtf8);
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
  switch (format) {
    case tasks::FileFormat::kCsv:
      return ParseCsvRows(text, where, columns, limit);
    case tasks::FileFormat::kText:
      return ParseParagraphs(text, limit);
    default:
      return ParseJsonLines(text, where, limit);
  }
}

absl::StatusOr<std::vector<nlohmann::json>> ReadRows(const std::string& path,
                                                     tasks::FileFormat format,
                                                     const std::vector<std::string>& columns,
                                                     int64_t limit) {
  if (format == tasks::FileFormat::kParquet) {
    HC_ASSIGN_OR_RETURN(std::vector<nlohmann::json> rows, parquet_rows::Read(path, limit));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (IsUtf8(rows[i])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": row ", i, " holds text that is not UTF-8"));
    }
    return rows;
  }
  HC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseRows(text, path, format, columns, limit);
}

}  // namespace headcount::eval
