// Colour and width of the terminal, decided once. Pure functions of a Style; no errors.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headcount::cli {

struct Style {
  bool color = false;        // ANSI colours on standard output
  bool interactive = false;  // standard error is a terminal: progress bars may be redrawn
  int width = 100;           // columns
};

// `when` is auto, always or never; auto follows the terminal and NO_COLOR.
Style DetectStyle(std::string_view when);

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
};

// The viridis colour map at x in [0, 1]; readable for colour-blind people and in print.
Rgb Viridis(double x);

std::string Bold(const Style& style, std::string_view text);
std::string Dim(const Style& style, std::string_view text);
// `text` in black or white, whichever reads better, on `background`.
std::string OnColor(const Style& style, Rgb background, std::string_view text);
std::string InColor(const Style& style, Rgb foreground, std::string_view text);

// Control characters from the server are shown as \xNN, so that a name cannot steer the terminal.
std::string Printable(std::string_view text);

}  // namespace headcount::cli
