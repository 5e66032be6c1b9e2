// A layers x heads map for the terminal: one cell a query head, coloured where the terminal has
// colour, shaded with characters where it has none. Pure functions.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "client/cli/style.h"

namespace headcount::cli {

struct HeatMap {
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;  // a thin gap is drawn between KV groups when there are fewer than heads
  std::span<const double> values;  // [layer][head]; NaN is drawn as '?'
  std::string_view title;
  std::string_view unit;
  bool percent = false;  // values in [0, 1] shown as percent
  std::span<const double>
      inactive;  // optional, [layer][head] share of samples inactive: >= .5 is marked
  std::string_view inactive_note = "x: inactive in at least half of the samples";
};

std::string RenderHeatMap(const Style& style, const HeatMap& map);

}  // namespace headcount::cli
