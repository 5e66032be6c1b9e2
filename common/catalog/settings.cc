// See settings.h.

#include "common/catalog/settings.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace headcount::catalog {
namespace {

bool TooLarge(const nlohmann::json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

}  // namespace

const Settings::Json& Settings::Get(std::string_view key) const {
  static const Json kNull;
  const auto found = json_.find(key);
  return found == json_.end() ? kNull : *found;
}

absl::Status Settings::Refuse(std::string_view key, const std::string& message) const {
  const Json& value = Get(key);
  const std::string shown =
      value.is_null() ? "missing" : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(where_, ": ", std::string(key), ": ", message,
                                                 " (got ", shown.substr(0, 200), ")")),
      "UNSUPPORTED_MODEL");
}

absl::StatusOr<int64_t> Settings::Integer(std::string_view key, int64_t low, int64_t high,
                                          std::optional<int64_t> missing) const {
  const Json& value = Get(key);
  if (value.is_null() && missing.has_value()) return *missing;
  const bool fits = value.is_number_integer() && !TooLarge(value);
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    return Refuse(key, absl::StrCat("must be an integer from ", low, " to ", high));
  }
  return value.get<int64_t>();
}

absl::StatusOr<double> Settings::Positive(std::string_view key,
                                          std::optional<double> missing) const {
  const Json& value = Get(key);
  if (value.is_null() && missing.has_value()) return *missing;
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
    return Refuse(key, "must be a number greater than 0");
  }
  return value.get<double>();
}

absl::StatusOr<bool> Settings::Flag(std::string_view key, bool missing) const {
  const Json& value = Get(key);
  if (value.is_null()) return missing;
  if (!value.is_boolean()) return Refuse(key, "must be true or false");
  return value.get<bool>();
}

absl::StatusOr<std::string> Settings::Text(std::string_view key, const char* missing) const {
  const Json& value = Get(key);
  if (value.is_null()) return std::string(missing);
  if (!value.is_string()) return Refuse(key, "must be a string");
  return value.get<std::string>();
}

absl::StatusOr<std::optional<int64_t>> Settings::TokenId(std::string_view key) const {
  const Json& value = Get(key);
  const Json& id = value.is_array() && !value.empty() ? value.front() : value;
  if (id.is_null() || (value.is_array() && value.empty())) return std::nullopt;
  if (!id.is_number_integer() || TooLarge(id)) return Refuse(key, "must be a token id");
  return id.get<int64_t>();
}

}  // namespace headcount::catalog
