// A text table: columns as wide as their widest cell, numbers to the right. Not thread-safe.

#pragma once

#include <string>
#include <vector>

#include "client/cli/style.h"

namespace headcount::cli {

class Table {
 public:
  enum class Align { kLeft, kRight };

  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty; cells beyond the columns are dropped.
  void AddRow(std::vector<std::string> cells);

  bool empty() const { return rows_.empty(); }
  std::string Render(const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns a terminal needs for `text` in UTF-8, each code point counted as one.
size_t DisplayWidth(std::string_view text);

}  // namespace headcount::cli
