// The templates of a task file, applied to rows: description, question, choices and target, and
// what question and target mean to the harness: text, or the index of a choice.
// Immutable after Parse and thread-safe. Used by worker/eval/render. Errors name the task, the
// template's key and the row: INVALID_ARGUMENT for a syntax error, an undefined column, a
// doc_to_choice that is no list of 2 to 32 strings, or an index beyond the choices;
// RESOURCE_EXHAUSTED when one runs too long.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hf/template.h"
#include "common/tasks/task_definition.h"
#include "nlohmann/json.hpp"

namespace headcount::eval {

// One template. As in the harness, a question or target that is the name of a column stands for its
// value; a choice never does ("A" is the letter, also where a column is called A).
class RowTemplate {
 public:
  static absl::StatusOr<RowTemplate> Parse(const std::string& task, std::string_view key,
                                           const std::string& source, bool may_be_column);

  // `where` names the row in errors.
  absl::StatusOr<std::string> Render(const nlohmann::json& row, const std::string& where) const;

  // "task T: KEY: WHERE", for errors about what it gave.
  std::string Name(const std::string& where) const;

 private:
  RowTemplate(std::string name, std::string column, hf::TextTemplate parsed)
      : name_(std::move(name)), column_(std::move(column)), template_(std::move(parsed)) {}

  std::string name_;
  std::string column_;  // empty: always the template
  hf::TextTemplate template_;
};

// A row as text.
struct RowText {
  // What stands before the target in an example: the question; where doc_to_text gives an index,
  // the right choice.
  std::string question;
  std::string target;                // the right choice, or what the template gave
  std::vector<std::string> choices;  // of the row
  int gold = -1;                     // the right choice; -1: the target is none of them
  // doc_to_text gave an index: the choices are contexts, and each is continued by the target.
  bool choices_are_contexts = false;
};

class RowTemplates {
 public:
  static absl::StatusOr<RowTemplates> Parse(const tasks::TaskDefinition& task);

  absl::StatusOr<std::string> Description(const nlohmann::json& row,
                                          const std::string& where) const {
    return description_.Render(row, where);
  }
  // `where` names the row in errors.
  absl::StatusOr<RowText> Render(const nlohmann::json& row, const std::string& where) const;

 private:
  RowTemplates(RowTemplate description, RowTemplate text, RowTemplate target)
      : description_(std::move(description)), text_(std::move(text)), target_(std::move(target)) {}

  absl::StatusOr<std::vector<std::string>> Choices(const nlohmann::json& row,
                                                   const std::string& where) const;

  RowTemplate description_;
  RowTemplate text_;
  RowTemplate target_;
  std::vector<RowTemplate> choices_;
  bool choices_are_one_list_ = false;
};

}  // namespace headcount::eval
