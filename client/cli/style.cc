// See style.h.

#include "client/cli/style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace headcount::cli {

Style DetectStyle(std::string_view when) {
  Style style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  style.color = when == "always" || (when == "auto" && isatty(STDOUT_FILENO) && !dumb &&
                                     (no_color == nullptr || *no_color == '\0'));
  style.interactive = isatty(STDERR_FILENO) && !dumb;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) style.width = size.ws_col;
  return style;
}

Rgb Viridis(double x) {
  // Nine points of matplotlib's viridis, interpolated.
  constexpr std::array<Rgb, 9> kPoints = {{{68, 1, 84},
                                           {71, 44, 122},
                                           {59, 81, 139},
                                           {44, 113, 142},
                                           {33, 144, 141},
                                           {39, 173, 129},
                                           {92, 200, 99},
                                           {170, 220, 50},
                                           {253, 231, 37}}};
  const double at = std::clamp(std::isnan(x) ? 0.0 : x, 0.0, 1.0) * (kPoints.size() - 1);
  const size_t low = std::min(static_cast<size_t>(at), kPoints.size() - 2);
  const double t = at - static_cast<double>(low);
  auto mix = [t](uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(std::lround(a + t * (b - a)));
  };
  const Rgb &a = kPoints[low], &b = kPoints[low + 1];
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

std::string Bold(const Style& style, std::string_view text) {
  return style.color ? absl::StrFormat("\x1b[1m%s\x1b[0m", text) : std::string(text);
}

std::string Dim(const Style& style, std::string_view text) {
  return style.color ? absl::StrFormat("\x1b[2m%s\x1b[0m", text) : std::string(text);
}

std::string OnColor(const Style& style, Rgb background, std::string_view text) {
  if (!style.color) return std::string(text);
  const double brightness = 0.299 * background.r + 0.587 * background.g + 0.114 * background.b;
  return absl::StrFormat("\x1b[48;2;%d;%d;%dm\x1b[38;5;%dm%s\x1b[0m", background.r, background.g,
                         background.b, brightness > 130 ? 16 : 231, text);
}

std::string InColor(const Style& style, Rgb foreground, std::string_view text) {
  if (!style.color) return std::string(text);
  return absl::StrFormat("\x1b[38;2;%d;%d;%dm%s\x1b[0m", foreground.r, foreground.g, foreground.b,
                         text);
}

std::string Printable(std::string_view text) {
  std::string out;
  for (unsigned char c : text) {
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", c);
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  return out;
}

}  // namespace headcount::cli
