// Accuracy curves drawn with characters: share of heads zeroed to the right, accuracy upwards. Pure
// functions.

#pragma once

#include <string>
#include <vector>

#include "client/cli/style.h"

namespace headcount::cli {

struct ChartLine {
  std::string label;
  std::vector<double> x;  // ascending
  std::vector<double> y;  // as many; NaN points are left out
};

struct Chart {
  std::vector<ChartLine> lines;  // at most 20 are told apart
  std::string x_title;
  std::string y_title;
  double reference = 0;  // a dotted horizontal line, where it is finite
  int height = 16;
};

std::string RenderChart(const Style& style, const Chart& chart);

}  // namespace headcount::cli
