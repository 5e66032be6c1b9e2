// A model's chat template: a conversation to the text that the model was trained on, as
// transformers' apply_chat_template(tokenize=False) renders it. The worker's prepare stage calls
// it; the text is then encoded without adding special tokens, because the template prints its own.
// Immutable: any number of threads may use one.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/hf/template.h"

namespace headcount::hf {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

class ChatTemplate {
 public:
  // From chat_template.jinja, or else tokenizer_config.json's chat_template (a string, or a list of
  // named ones, of which "default" is taken). FAILED_PRECONDITION with reason NO_CHAT_TEMPLATE when
  // the model has none, BAD_CHAT_TEMPLATE when it does not parse.
  static absl::StatusOr<ChatTemplate> Load(const std::string& directory);

  // add_generation_prompt appends what begins the assistant's turn. `now`, in seconds since 1970
  // (UTC), is the date for templates that print one; without it they take their fixed default, so
  // that a prompt does not change overnight. INVALID_ARGUMENT: the template refuses the
  // conversation (its message is kept); RESOURCE_EXHAUSTED: a limit.
  absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                     bool add_generation_prompt,
                                     std::optional<int64_t> now = std::nullopt) const;

 private:
  ChatTemplate(internal::Template tmpl, std::map<std::string, std::string> special_tokens)
      : template_(std::move(tmpl)), special_tokens_(std::move(special_tokens)) {}

  internal::Template template_;
  std::map<std::string, std::string> special_tokens_;  // bos_token, ...: variables of the template
};

}  // namespace headcount::hf
