// Implementation of chat_template.h.

#include "common/hf/chat_template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/hf/model_files.h"
#include "nlohmann/json.hpp"

namespace headcount::hf {
namespace {

using nlohmann::json;

absl::StatusOr<std::string> FindSource(const std::string& directory) {
  absl::StatusOr<std::string> file =
      ReadFile(directory + "/chat_template.jinja", TemplateLimits{}.source_bytes);
  if (file.ok() || !absl::IsNotFound(file.status())) return file;

  HC_ASSIGN_OR_RETURN(const json config,
                      internal::ReadJsonObject(directory, "tokenizer_config.json"));
  auto it = config.find("chat_template");
  if (it != config.end() && it->is_string()) return it->get<std::string>();
  if (it != config.end() && it->is_array()) {
    for (const json& entry : *it) {
      if (entry.is_object() && entry.value("name", json()) == "default" &&
          entry.value("template", json()).is_string()) {
        return entry["template"].get<std::string>();
      }
    }
  }
  return WithReason(
      absl::FailedPreconditionError(
          absl::StrCat(directory,
                       ": the model has no chat template (chat_template.jinja, or chat_template in "
                       "tokenizer_config.json)")),
      "NO_CHAT_TEMPLATE");
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Load(const std::string& directory) {
  HC_ASSIGN_OR_RETURN(const std::string source, FindSource(directory));
  absl::StatusOr<internal::Template> parsed =
      internal::Template::Parse(source, HC_HF_CHAT, TemplateLimits{});
  if (!parsed.ok()) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(directory, ": chat template: ", parsed.status().message())),
                      "BAD_CHAT_TEMPLATE");
  }
  HC_ASSIGN_OR_RETURN(auto special_tokens, internal::ReadSpecialTokens(directory));
  return ChatTemplate(*std::move(parsed), std::move(special_tokens));
}

absl::StatusOr<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                                 bool add_generation_prompt,
                                                 std::optional<int64_t> now) const {
  // Ordered: a template may print a message as JSON, role first as in Python.
  nlohmann::ordered_json variables = special_tokens_;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  variables["messages"] = std::move(list);
  variables["add_generation_prompt"] = add_generation_prompt;
  // transformers passes these always, so templates may test them.
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  try {
    return template_.Render(variables.dump(), now);
  } catch (const json::exception&) {  // dump() checks UTF-8
    return absl::InvalidArgumentError("a message is not valid UTF-8");
  }
}

}  // namespace headcount::hf
