// See row_count.h.

#include "server/catalog/row_count.h"

#include "common/base/files.h"
#include "common/base/status_macros.h"

namespace headcount::server {

int64_t CountRows(std::string_view bytes, tasks::FileFormat format) {
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
