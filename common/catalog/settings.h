// One JSON object of a config.json: its methods read settings and say which one is wrong. Used by
// model_config.cc and config_attention.cc. Immutable; refers to the JSON that it is made from.
//
// Errors: FAILED_PRECONDITION, reason UNSUPPORTED_MODEL, naming file, setting and value.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headcount::catalog {

class Settings {
 public:
  using Json = nlohmann::json;

  Settings(const Json& json, std::string_view where) : json_(json), where_(where) {}

  const std::string& where() const { return where_; }
  // The value, or null where it is absent or null.
  const Json& Get(std::string_view key) const;
  bool Has(std::string_view key) const { return !Get(key).is_null(); }
  // Absent, which to transformers is not always the same as null.
  bool Lacks(std::string_view key) const { return json_.find(key) == json_.end(); }

  absl::Status Refuse(std::string_view key, const std::string& message) const;

  absl::StatusOr<int64_t> Integer(std::string_view key, int64_t low, int64_t high,
                                  std::optional<int64_t> missing = std::nullopt) const;
  // A finite number greater than 0.
  absl::StatusOr<double> Positive(std::string_view key,
                                  std::optional<double> missing = std::nullopt) const;
  absl::StatusOr<bool> Flag(std::string_view key, bool missing) const;
  absl::StatusOr<std::string> Text(std::string_view key, const char* missing) const;
  // A token id; of a list of them the first.
  absl::StatusOr<std::optional<int64_t>> TokenId(std::string_view key) const;

 private:
  const Json& json_;
  std::string where_;
};

}  // namespace headcount::catalog
