// See unicode.h.

#include "worker/eval/unicode.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace headcount::eval {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// What Python's str.isspace accepts: bidirectional class WS, B or S, or category Zs.
bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

}  // namespace

size_t CodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return !IsContinuation(static_cast<unsigned char>(c));
  }));
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) return i;
    char32_t c = lead & (0x7f >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (!IsContinuation(byte)) return i;
      c = (c << 6) | (byte & 0x3f);
    }
    constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
    if (c < kSmallest[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return i;
    i += length;
  }
  return std::nullopt;
}

size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && IsContinuation(static_cast<unsigned char>(text[begin]))) --begin;
    const auto lead = static_cast<unsigned char>(text[begin]);
    const size_t length = end - begin;
    char32_t c = lead;
    if (length > 1) {
      c = lead & (0x7f >> length);
      for (size_t k = 1; k < length; ++k) {
        c = (c << 6) | (static_cast<unsigned char>(text[begin + k]) & 0x3f);
      }
    }
    if (!IsSpace(c)) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace headcount::eval
