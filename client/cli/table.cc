// See table.h.

#include "client/cli/table.h"

#include <algorithm>

namespace headcount::cli {

size_t DisplayWidth(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](unsigned char c) { return (c & 0xc0) != 0x80; });
}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Render(const Style& style) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  auto pad = [&](std::string_view text, size_t c) {
    const std::string blanks(widths[c] - DisplayWidth(text), ' ');
    if (columns_[c].align == Align::kRight) return blanks + std::string(text);
    return c + 1 == columns_.size() ? std::string(text) : std::string(text) + blanks;
  };
  std::string out;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) out += "  ";
    out += Bold(style, pad(columns_[c].title, c));
  }
  out += '\n';
  for (const auto& row : rows_) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) out += "  ";
      out += pad(row[c], c);
    }
    out += '\n';
  }
  return out;
}

}  // namespace headcount::cli
