// See heat_map.h.

#include "client/cli/heat_map.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headcount::cli {
namespace {

constexpr std::string_view kShades = " .:-=+*#%@";

std::string Number(double value, bool percent) {
  if (percent) return absl::StrFormat("%.0f%%", 100 * value);
  return absl::StrFormat("%.3g", value);
}

}  // namespace

std::string RenderHeatMap(const Style& style, const HeatMap& map) {
  double low = INFINITY, high = -INFINITY;
  for (double value : map.values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (map.percent) {
    low = 0;
    high = 1;
  }
  const double range = high > low ? high - low : 1;
  const int group = map.kv_heads > 0 ? std::max(1, map.heads / map.kv_heads) : map.heads;
  // Wide cells carry marks; narrow ones fit models with many heads.
  const int cell = map.heads * 3 + map.kv_heads + 8 <= style.width ? 3 : 1;

  std::string out = Bold(style, Printable(map.title)) + "\n";
  std::string ruler = "layer ";
  for (int h = 0; h < map.heads; ++h) {
    if (h > 0 && h % group == 0) ruler += ' ';
    ruler += cell == 3 ? absl::StrFormat("%2d ", h)
                       : std::string(1, h % 10 == 0 ? static_cast<char>('0' + h / 10 % 10) : ' ');
  }
  out += Dim(style, ruler) + "\n";
  for (int l = 0; l < map.layers; ++l) {
    out += Dim(style, absl::StrFormat("%5d ", l));
    for (int h = 0; h < map.heads; ++h) {
      if (h > 0 && h % group == 0) out += ' ';
      const size_t index = static_cast<size_t>(l) * map.heads + h;
      const double value = map.values[index];
      const bool marked = index < map.inactive.size() && map.inactive[index] >= 0.5;
      if (!std::isfinite(value)) {
        out += std::string(cell / 2, ' ') + "?" + std::string(cell / 2, ' ');
        continue;
      }
      const double x = (value - low) / range;
      if (style.color) {
        out +=
            OnColor(style, Viridis(x), cell == 3 ? (marked ? " x " : "   ") : (marked ? "x" : " "));
      } else {
        const char shade =
            kShades[std::min(kShades.size() - 1, static_cast<size_t>(x * kShades.size()))];
        out += cell == 3 ? (marked ? absl::StrFormat("%cx%c", shade, shade) : std::string(3, shade))
                         : std::string(1, marked ? 'x' : shade);
      }
    }
    out += '\n';
  }
  out += "      ";
  out += Number(low, map.percent) + " ";
  for (int i = 0; i < 30; ++i) {
    const double x = i / 29.0;
    out +=
        style.color
            ? OnColor(style, Viridis(x), " ")
            : std::string(
                  1,
                  kShades[std::min(kShades.size() - 1, static_cast<size_t>(x * kShades.size()))]);
  }
  absl::StrAppend(&out, " ", Number(high, map.percent), " ", std::string(map.unit));
  if (!map.inactive.empty()) absl::StrAppend(&out, "   ", std::string(map.inactive_note));
  out += '\n';
  return out;
}

}  // namespace headcount::cli
