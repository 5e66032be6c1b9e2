// See chart.h.

#include "client/cli/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"

namespace headcount::cli {
namespace {

constexpr std::string_view kMarks = "abcdefghijklmnopqrst";

// Ten colours that can be told apart on a dark and on a light background (Tableau's).
constexpr std::array<Rgb, 10> kColors = {{{31, 119, 180},
                                          {255, 127, 14},
                                          {44, 160, 44},
                                          {214, 39, 40},
                                          {148, 103, 189},
                                          {140, 86, 75},
                                          {227, 119, 194},
                                          {127, 127, 127},
                                          {188, 189, 34},
                                          {23, 190, 207}}};

struct Cell {
  char mark = ' ';
  int line = -1;
};

}  // namespace

std::string RenderChart(const Style& style, const Chart& chart) {
  double x_high = 0, y_low = INFINITY, y_high = -INFINITY;
  auto see = [&](double y) {
    y_low = std::min(y_low, y);
    y_high = std::max(y_high, y);
  };
  for (const ChartLine& line : chart.lines) {
    for (size_t i = 0; i < line.x.size(); ++i) {
      if (!std::isfinite(line.x[i]) || !std::isfinite(line.y[i])) continue;
      x_high = std::max(x_high, line.x[i]);
      see(line.y[i]);
    }
  }
  if (std::isfinite(chart.reference)) see(chart.reference);
  if (!(y_low <= y_high) || x_high <= 0) return "";
  if (y_high - y_low < 1e-9) {
    y_low -= 1;
    y_high += 1;
  }
  const int width = std::clamp(style.width - 12, 30, 90), height = chart.height;
  std::vector<std::vector<Cell>> grid(height, std::vector<Cell>(width));
  auto column = [&](double x) { return static_cast<int>(std::lround(x / x_high * (width - 1))); };
  auto row = [&](double y) {
    return height - 1 -
           static_cast<int>(std::lround((y - y_low) / (y_high - y_low) * (height - 1)));
  };
  if (std::isfinite(chart.reference)) {
    for (int c = 0; c < width; c += 2) grid[row(chart.reference)][c] = {'.', -1};
  }
  auto color = [&](int line) { return kColors[line % kColors.size()]; };
  for (size_t l = 0; l < chart.lines.size(); ++l) {
    const ChartLine& line = chart.lines[l];
    const char mark = kMarks[l % kMarks.size()];
    for (size_t i = 0; i + 1 < line.x.size(); ++i) {
      if (!std::isfinite(line.y[i]) || !std::isfinite(line.y[i + 1])) continue;
      const int from = column(line.x[i]), to = column(line.x[i + 1]);
      for (int c = from; c <= to; ++c) {
        const double t = to > from ? static_cast<double>(c - from) / (to - from) : 0;
        Cell& cell = grid[row(line.y[i] + t * (line.y[i + 1] - line.y[i]))][c];
        if (cell.line < 0) cell = {'-', static_cast<int>(l)};
      }
    }
    for (size_t i = 0; i < line.x.size(); ++i) {
      if (std::isfinite(line.y[i]))
        grid[row(line.y[i])][column(line.x[i])] = {mark, static_cast<int>(l)};
    }
  }
  std::string out = Dim(style, chart.y_title) + "\n";
  for (int r = 0; r < height; ++r) {
    const double y = y_high - (y_high - y_low) * r / (height - 1);
    out += r % 5 == 0 || r == height - 1 ? Dim(style, absl::StrFormat("%7.1f |", y))
                                         : Dim(style, "        |");
    for (const Cell& cell : grid[r]) {
      out += cell.line >= 0 ? InColor(style, color(cell.line), std::string(1, cell.mark))
                            : std::string(1, cell.mark);
    }
    out += '\n';
  }
  out += Dim(style, "        +" + std::string(width, '-')) + "\n";
  const std::string right = absl::StrFormat("%.1f", x_high);
  out += Dim(style,
             "         0" +
                 std::string(std::max<int>(1, width - 1 - static_cast<int>(right.size())), ' ') +
                 right + "  " + chart.x_title) +
         "\n";
  for (size_t l = 0; l < chart.lines.size(); ++l) {
    out += "  " +
           InColor(style, color(static_cast<int>(l)), std::string(1, kMarks[l % kMarks.size()])) +
           " " + Printable(chart.lines[l].label);
    if ((l + 1) % 4 == 0 || l + 1 == chart.lines.size()) out += '\n';
  }
  return out;
}

}  // namespace headcount::cli
