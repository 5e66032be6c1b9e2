// See row_count.h.

#include "server/catalog/row_count.h"

#include <algorithm>

#include "common/base/files.h"
#include "common/base/status_macros.h"

namespace headcount::server {
namespace {

int64_t CountParagraphs(std::string_view bytes) {
  int64_t paragraphs = 0;
  bool inside = false;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = bytes.substr(at, end - at);
    at = end + 1;
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    paragraphs += !blank && !inside ? 1 : 0;
    inside = !blank;
  }
  return paragraphs;
}

}  // namespace

int64_t CountRows(std::string_view bytes, tasks::FileFormat format) {
  if (format == tasks::FileFormat::kText) return CountParagraphs(bytes);
  int64_t rows = 0;
  bool quoted = false;
  bool blank = true;
  for (const char c : bytes) {
    if (c == '"' && format == tasks::FileFormat::kCsv) quoted = !quoted;
    if (c == '\n' && !quoted) {
      if (!blank) ++rows;
      blank = true;
    } else if (c != '\r' && c != '\n' && c != ' ' && c != '\t') {
      blank = false;
    }
  }
  return blank ? rows : rows + 1;
}

absl::StatusOr<int64_t> CountFileRows(const std::string& path, tasks::FileFormat format) {
  HC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return CountRows(bytes, format);
}

}  // namespace headcount::server
