// See mask_file.h.

#include "client/cli/mask_file.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace headcount::cli {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kLargestFile = 64 << 20;

absl::Status Bad(const std::string& name, const std::string& what) {
  return InvalidField("--rule", name, what);
}

void Add(int layer, int head, v1::FixedHeads* to) {
  v1::Head* added = to->add_heads();
  added->set_layer(layer);
  added->set_head(head);
}

absl::StatusOr<v1::FixedHeads> ParseJson(std::string_view bytes, const std::string& name) {
  const nlohmann::json rows = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array() || rows.empty()) {
    return Bad(name, "must hold a list of lists, one a layer, of 0 and 1 (or be a .npy file)");
  }
  v1::FixedHeads out;
  for (size_t layer = 0; layer < rows.size(); ++layer) {
    if (!rows[layer].is_array() || rows[layer].size() != rows[0].size()) {
      return Bad(name, absl::StrCat("layer ", layer, " must be a list as long as the first one"));
    }
    for (size_t head = 0; head < rows[layer].size(); ++head) {
      const nlohmann::json& value = rows[layer][head];
      if (!value.is_number() && !value.is_boolean()) {
        return Bad(name, absl::StrCat("layer ", layer, ", head ", head, " is not a number"));
      }
      const bool inactive = value.is_boolean() ? value.get<bool>() : value.get<double>() != 0;
      if (inactive) Add(static_cast<int>(layer), static_cast<int>(head), &out);
    }
  }
  return out;
}

// What stands behind 'key': in a header, up to the end of a string, tuple or word.
std::optional<std::string> Entry(std::string_view header, std::string_view key) {
  const std::string quoted = absl::StrCat("'", std::string(key), "':");
  size_t begin = header.find(quoted);
  if (begin == std::string_view::npos) return std::nullopt;
  begin = header.find_first_not_of(' ', begin + quoted.size());
  if (begin == std::string_view::npos) return std::nullopt;
  const char open = header[begin];
  const size_t end = open == '\''  ? header.find('\'', begin + 1)
                     : open == '(' ? header.find(')', begin)
                                   : header.find_first_of(",}", begin);
  if (end == std::string_view::npos) return std::nullopt;
  const bool enclosed = open == '\'' || open == '(';
  return std::string(header.substr(begin + enclosed, end - begin - enclosed));
}

absl::StatusOr<v1::FixedHeads> ParseNpy(std::string_view bytes, const std::string& name) {
  const size_t prefix = kMagic.size() + 2;
  const int version = bytes.size() > prefix ? bytes[kMagic.size()] : 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3 || bytes.size() < prefix + length_bytes) {
    return Bad(name, "is not a .npy file of version 1 to 3");
  }
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + prefix, length_bytes);
  const size_t begin = prefix + length_bytes + length;
  if (bytes.size() < begin) return Bad(name, "ends within its header");
  const std::string_view header = bytes.substr(prefix + length_bytes, length);
  const auto type = Entry(header, "descr"), order = Entry(header, "fortran_order"),
             shape = Entry(header, "shape");
  if (!type || !order || !shape) return Bad(name, "has a header without descr, order or shape");
  const std::vector<std::string> sides = absl::StrSplit(*shape, ',', absl::SkipWhitespace());
  int layers = 0, heads = 0;
  if (absl::StripAsciiWhitespace(*order) != "False" || sides.size() != 2 ||
      !absl::SimpleAtoi(sides[0], &layers) || !absl::SimpleAtoi(sides[1], &heads) || layers < 1 ||
      heads < 1 || layers > 10'000 || heads > 10'000) {
    return Bad(name, absl::StrCat("must be a matrix layers x heads in C order, its shape is (",
                                  *shape, ")"));
  }
  const bool little = absl::StartsWith(*type, "|") || absl::StartsWith(*type, "<");
  const char kind = type->size() > 2 ? (*type)[1] : ' ';
  size_t size = 0;
  if (!little || std::string_view("biuf").find(kind) == std::string_view::npos ||
      !absl::SimpleAtoi(type->substr(2), &size) || size < 1 || size > 8) {
    return Bad(name, absl::StrCat("must hold booleans, integers or floats, its type is ", *type));
  }
  const size_t count = static_cast<size_t>(layers) * static_cast<size_t>(heads);
  if (bytes.size() - begin != count * size) {
    return Bad(name, absl::StrCat("has ", bytes.size() - begin, " bytes of data, its shape needs ",
                                  count * size));
  }
  v1::FixedHeads out;
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + begin + i * size, size);
    if (kind == 'f') bits &= ~(uint64_t{1} << (8 * size - 1));  // -0 is 0
    if (bits != 0) Add(static_cast<int>(i) / heads, static_cast<int>(i) % heads, &out);
  }
  return out;
}

}  // namespace

absl::StatusOr<v1::FixedHeads> ParseMask(std::string_view bytes, const std::string& name) {
  HC_ASSIGN_OR_RETURN(v1::FixedHeads out, bytes.substr(0, kMagic.size()) == kMagic
                                              ? ParseNpy(bytes, name)
                                              : ParseJson(bytes, name));
  if (out.heads().empty()) return Bad(name, "marks no head: there is nothing to change");
  return out;
}

absl::StatusOr<v1::FixedHeads> ReadMaskFile(const std::string& path) {
  HC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kLargestFile));
  return ParseMask(bytes, path);
}

}  // namespace headcount::cli
