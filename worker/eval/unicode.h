// The little of Unicode that lm-evaluation-harness' rules need: code points, and white space as
// Python's str.isspace and str.rstrip know it. Input is UTF-8. Pure functions, no errors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace headcount::eval {

// Code points of valid UTF-8.
size_t CodePoints(std::string_view text);

// Offset of the first byte that is not part of valid UTF-8 (surrogates and overlong forms are not).
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// The pieces of Python's re.split(r"\s+", text), an empty one at either end included: the words of
// word_perplexity. Valid UTF-8.
int64_t CountWords(std::string_view text);

// The bytes that Python's rstrip() takes from the end of `text`.
size_t TrailingSpace(std::string_view text);

}  // namespace headcount::eval
