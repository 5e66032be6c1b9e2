// See ids.h.

#include "common/base/ids.h"

#include <array>
#include <random>

#include "absl/strings/str_format.h"
#include "common/base/errors.h"

namespace headcount {
namespace {

class SystemIds final : public IdGenerator {
 public:
  std::string Uuid() override {
    std::array<unsigned, 4> words;
    for (unsigned& word : words) word = std::random_device()();
    words[1] = (words[1] & 0xffff0fffu) | 0x00004000u;  // version 4
    words[2] = (words[2] & 0x3fffffffu) | 0x80000000u;  // variant 1
    return absl::StrFormat("%08x-%04x-%04x-%04x-%04x%08x", words[0], words[1] >> 16,
                           words[1] & 0xffffu, words[2] >> 16, words[2] & 0xffffu, words[3]);
  }

  std::string ShortId() override {
    constexpr std::string_view kLetters =
        "abcdefghijkmnpqrstuvwxyz23456789";  // no l, o, 0, 1: they look alike
    std::random_device device;
    std::string id;
    for (int i = 0; i < 10; ++i) id.push_back(kLetters[device() % (i == 0 ? 24 : kLetters.size())]);
    return id;
  }
};

}  // namespace

IdGenerator& IdGenerator::System() {
  static SystemIds ids;
  return ids;
}

std::string CountingIds::Uuid() { return absl::StrFormat("id-%d", next_.fetch_add(1)); }
std::string CountingIds::ShortId() { return Uuid(); }

absl::Status CheckResourceId(std::string_view field, std::string_view value) {
  constexpr size_t kLongest = 100;
  auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  bool ok = !value.empty() && value.size() <= kLongest && alphanumeric(value[0]) &&
            value.find("..") == std::string_view::npos;
  for (char c : value) ok = ok && (alphanumeric(c) || c == '.' || c == '_' || c == '-');
  if (ok) return absl::OkStatus();
  return InvalidField(field, value,
                      "must be 1 to 100 letters, digits, '.', '_' or '-', start with a letter or "
                      "digit, and not hold \"..\"",
                      "INVALID_NAME");
}

absl::Status CheckModelName(std::string_view field, std::string_view value) {
  const size_t seam = value.find('/');
  if (seam == std::string_view::npos) return CheckResourceId(field, value);
  if (CheckResourceId(field, value.substr(0, seam)).ok() &&
      CheckResourceId(field, value.substr(seam + 1)).ok()) {
    return absl::OkStatus();
  }
  return InvalidField(field, value,
                      "must be NAME or ORGANISATION/NAME, each of 1 to 100 letters, digits, '.', "
                      "'_' or '-', starting with a letter or digit, without \"..\"",
                      "INVALID_NAME");
}

}  // namespace headcount
