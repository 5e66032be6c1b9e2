// The JSON files beside a tokenizer.json that say which tokens are special: tokenizer_config.json,
// special_tokens_map.json and config.json. Internal to common/hf. Pure functions.
//
// Errors: FAILED_PRECONDITION for a file that is not a JSON object; a file that is missing counts
// as an empty object.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headcount::hf::internal {

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& directory, std::string_view file);

// bos_token, eos_token, ... -> text, from tokenizer_config.json, then special_tokens_map.json. A
// token is written as a string or as an object with "content".
absl::StatusOr<std::map<std::string, std::string>> ReadSpecialTokens(const std::string& directory);

// config.json's bos_token_id or eos_token_id; of a list, the first.
absl::StatusOr<std::optional<int64_t>> ReadConfigTokenId(const std::string& directory,
                                                         std::string_view key);

// What transformers' generate() stops at: eos_token_id of generation_config.json, a number or a
// list, else of config.json. Empty where neither names one.
absl::StatusOr<std::vector<int64_t>> ReadEndTokenIds(const std::string& directory);

}  // namespace headcount::hf::internal
