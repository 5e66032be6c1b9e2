// Implementation of regex.h over the Rust crate.

#include "common/hf/regex.h"

#include <utility>

#include "absl/status/status.h"
#include "common/hf/ffi.h"
#include "nlohmann/json.hpp"

namespace headcount::hf {
namespace {

using internal::Data;
using internal::Take;
using internal::TakeError;

absl::StatusOr<std::string> Change(HcHfChange change, std::string_view text) {
  HcHfBytes out{};
  HcHfBytes error{};
  const HcHfCode code = hc_hf_change_text(change, Data(text), text.size(), &out, &error);
  if (code != HC_HF_OK) return TakeError(code, error);
  return Take(out);
}

}  // namespace

void Regex::Free::operator()(HcHfRegex* regex) const { hc_hf_regex_free(regex); }

absl::StatusOr<Regex> Regex::Parse(std::string_view pattern) {
  HcHfRegex* raw = nullptr;
  HcHfBytes error{};
  const HcHfCode code = hc_hf_regex_new(Data(pattern), pattern.size(), &raw, &error);
  if (code != HC_HF_OK) return TakeError(code, error);
  return Regex(raw);
}

absl::StatusOr<std::vector<std::vector<std::string>>> Regex::FindAll(std::string_view text) const {
  HcHfBytes out{};
  HcHfBytes error{};
  const HcHfCode code = hc_hf_regex_find_all(regex_.get(), Data(text), text.size(), &out, &error);
  if (code != HC_HF_OK) return TakeError(code, error);
  const nlohmann::json matches =
      nlohmann::json::parse(Take(out), nullptr, /*allow_exceptions=*/false);
  if (!matches.is_array()) return absl::InternalError("regular expression: matches are no list");
  std::vector<std::vector<std::string>> found;
  for (const nlohmann::json& match : matches) {
    std::vector<std::string>& groups = found.emplace_back();
    for (const nlohmann::json& group : match) groups.push_back(group.get<std::string>());
  }
  return found;
}

absl::StatusOr<std::string> Regex::Remove(std::string_view text) const {
  HcHfBytes out{};
  HcHfBytes error{};
  const HcHfCode code = hc_hf_regex_remove(regex_.get(), Data(text), text.size(), &out, &error);
  if (code != HC_HF_OK) return TakeError(code, error);
  return Take(out);
}

absl::StatusOr<std::string> PythonLower(std::string_view text) { return Change(HC_HF_LOWER, text); }
absl::StatusOr<std::string> PythonUpper(std::string_view text) { return Change(HC_HF_UPPER, text); }
absl::StatusOr<std::string> PythonStrip(std::string_view text) { return Change(HC_HF_STRIP, text); }
absl::StatusOr<std::string> PythonLeftStrip(std::string_view text) {
  return Change(HC_HF_LEFT_STRIP, text);
}

}  // namespace headcount::hf
