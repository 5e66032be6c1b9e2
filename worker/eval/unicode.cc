// See unicode.h.

#include "worker/eval/unicode.h"

#include <algorithm>
#include <array>

namespace headcount::eval {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// What Python's str.isspace accepts: bidirectional class WS, B or S, or category Zs.
bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

// The code point whose bytes these are.
char32_t Decode(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes.front());
  if (bytes.size() == 1) return lead;
  char32_t c = lead & (0x7f >> bytes.size());
  for (const char byte : bytes.substr(1)) c = (c << 6) | (static_cast<unsigned char>(byte) & 0x3f);
  return c;
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

int64_t CountWords(std::string_view text) {
  int64_t words = 1;
  bool space = false;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && IsContinuation(static_cast<unsigned char>(text[end]))) ++end;
    const bool now = IsSpace(Decode(text.substr(i, end - i)));
    words += now && !space ? 1 : 0;
    space = now;
    i = end;
  }
  return words;
}

size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && IsContinuation(static_cast<unsigned char>(text[begin]))) --begin;
    if (!IsSpace(Decode(text.substr(begin, end - begin)))) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace headcount::eval
