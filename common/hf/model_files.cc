// Implementation of model_files.h.

#include "common/hf/model_files.h"

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"

namespace headcount::hf::internal {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxJsonBytes = uint64_t{64} << 20;

std::optional<std::string> TokenText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<json> ReadJsonObject(const std::string& directory, std::string_view file) {
  const std::string path = directory + "/" + std::string(file);
  absl::StatusOr<std::string> text = ReadFile(path, kMaxJsonBytes);
  if (absl::IsNotFound(text.status())) return json::object();
  if (!text.ok()) return text.status();
  json parsed = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object())
    return absl::FailedPreconditionError(absl::StrCat(path, ": not a JSON object"));
  return parsed;
}

absl::StatusOr<std::map<std::string, std::string>> ReadSpecialTokens(const std::string& directory) {
  std::map<std::string, std::string> tokens;
  for (std::string_view file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    HC_ASSIGN_OR_RETURN(const json object, ReadJsonObject(directory, file));
    for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                            "cls_token", "mask_token"}) {
      if (!object.contains(key)) continue;
      if (std::optional<std::string> text = TokenText(object[key]); text.has_value())
        tokens.emplace(key, *text);
    }
  }
  return tokens;
}

absl::StatusOr<std::optional<int64_t>> ReadConfigTokenId(const std::string& directory,
                                                         std::string_view key) {
  HC_ASSIGN_OR_RETURN(const json config, ReadJsonObject(directory, "config.json"));
  auto it = config.find(std::string(key));
  if (it == config.end()) return std::nullopt;
  const json& id = it->is_array() && !it->empty() ? it->front() : *it;
  if (!id.is_number_integer()) return std::nullopt;
  return id.get<int64_t>();
}

absl::StatusOr<std::vector<int64_t>> ReadEndTokenIds(const std::string& directory) {
  for (std::string_view file : {"generation_config.json", "config.json"}) {
    HC_ASSIGN_OR_RETURN(const json config, ReadJsonObject(directory, file));
    const auto it = config.find("eos_token_id");
    if (it == config.end()) continue;
    std::vector<int64_t> ids;
    for (const json& id : it->is_array() ? *it : json::array({*it})) {
      if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
    }
    if (!ids.empty()) return ids;
  }
  return std::vector<int64_t>{};
}

}  // namespace headcount::hf::internal
