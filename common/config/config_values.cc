// See config_values.h.

#include "common/config/config_values.h"

#include <charconv>
#include <regex>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::config_internal {
namespace {

std::string Shown(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a map";
  return "nothing";
}

bool ParseInteger(const std::string& text, int64_t* out) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *out);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

absl::StatusOr<std::string> ReadString(const std::string& key, const YAML::Node& node) {
  if (!node.IsScalar()) return InvalidField(key, Shown(node), "must be a text");
  return node.Scalar();
}

absl::StatusOr<bool> ReadBool(const std::string& key, const YAML::Node& node) {
  if (node.IsScalar() && node.Scalar() == "true") return true;
  if (node.IsScalar() && node.Scalar() == "false") return false;
  return InvalidField(key, Shown(node), "must be true or false");
}

absl::StatusOr<int64_t> ReadInteger(const std::string& key, const YAML::Node& node) {
  int64_t value = 0;
  if (!node.IsScalar() || !ParseInteger(node.Scalar(), &value)) {
    return InvalidField(key, Shown(node), "must be a whole number");
  }
  return value;
}

absl::StatusOr<std::vector<std::string>> ReadStrings(const std::string& key,
                                                     const YAML::Node& node) {
  if (!node.IsSequence()) return InvalidField(key, Shown(node), "must be a list");
  std::vector<std::string> out;
  for (size_t i = 0; i < node.size(); ++i) {
    HC_ASSIGN_OR_RETURN(std::string value, ReadString(absl::StrCat(key, "[", i, "]"), node[i]));
    out.push_back(std::move(value));
  }
  return out;
}

absl::Status CheckRange(const std::string& key, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidField(key, std::to_string(value),
                      std::string(absl::StrCat("must be ", least, " to ", most)));
}

absl::Status CheckListen(const std::string& key, const std::string& value) {
  static const std::regex kShape(R"((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5}))");
  std::smatch match;
  int64_t port = -1;
  if (value.size() > 300 || !std::regex_match(value, match, kShape) ||
      !ParseInteger(match[2].str(), &port) || port > 65'535) {
    return InvalidField(key, value, "must be host:port with a port of 0 to 65535");
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const std::string& key, const std::string& value) {
  static const std::regex kShape(R"(cpu|cuda:[0-9]{1,3})");
  if (value.size() <= 20 && std::regex_match(value, kShape)) return absl::OkStatus();
  return InvalidField(key, value, "must be cpu or cuda:N");
}

}  // namespace headcount::config_internal
