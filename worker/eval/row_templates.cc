// See row_templates.h.

#include "worker/eval/row_templates.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::eval {

using nlohmann::json;

namespace {

// What the harness takes for an index: digits alone, where there are choices.
absl::StatusOr<std::optional<int>> AsIndex(const std::string& text, size_t choices,
                                           const std::string& name) {
  if (choices == 0 || text.empty() || text.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  const int index = text.size() > 4 ? -1 : std::stoi(text);
  if (index < 0 || index >= static_cast<int>(choices)) {
    return InvalidField(name, text,
                        absl::StrCat("must be an index below the ", choices, " choices"));
  }
  return index;
}

}  // namespace

absl::StatusOr<RowTemplate> RowTemplate::Parse(const std::string& task, std::string_view key,
                                               const std::string& source, bool may_be_column) {
  std::string name = "task " + task + ": " + std::string(key);
  auto parsed = hf::TextTemplate::Parse(source);
  if (!parsed.ok()) return Annotate(parsed.status(), name);
  return RowTemplate(std::move(name), may_be_column ? source : "", *std::move(parsed));
}

absl::StatusOr<std::string> RowTemplate::Render(const json& row, const std::string& where) const {
  const auto column = column_.empty() ? row.end() : row.find(column_);
  if (column != row.end()) {
    if (column->is_structured()) {
      return InvalidField(Name(where), column->dump(),
                          absl::StrCat("column ", column_, " must hold text or a number"));
    }
    return column->is_string() ? column->get<std::string>() : column->dump();
  }
  auto text = template_.Render(row.dump());
  if (!text.ok()) return Annotate(text.status(), Name(where));
  return text;
}

std::string RowTemplate::Name(const std::string& where) const { return name_ + ": " + where; }

absl::StatusOr<RowTemplates> RowTemplates::Parse(const tasks::TaskDefinition& task) {
  HC_ASSIGN_OR_RETURN(RowTemplate description,
                      RowTemplate::Parse(task.task, "description", task.description, false));
  HC_ASSIGN_OR_RETURN(RowTemplate text,
                      RowTemplate::Parse(task.task, "doc_to_text", task.doc_to_text, true));
  HC_ASSIGN_OR_RETURN(RowTemplate target,
                      RowTemplate::Parse(task.task, "doc_to_target", task.doc_to_target, true));
  RowTemplates templates(std::move(description), std::move(text), std::move(target));
  templates.choices_are_one_list_ = task.doc_to_choice_is_list_template;
  for (std::string source : task.doc_to_choice) {
    // The harness prints the list and parses it back; as JSON no value can be misread.
    if (task.doc_to_choice_is_list_template) {
      source = "{{ (" + source.substr(2, source.size() - 4) + ") | tojson }}";
    }
    HC_ASSIGN_OR_RETURN(RowTemplate choice,
                        RowTemplate::Parse(task.task, "doc_to_choice", source, false));
    templates.choices_.push_back(std::move(choice));
  }
  return templates;
}

absl::StatusOr<RowText> RowTemplates::Render(const json& row, const std::string& where) const {
  RowText text;
  HC_ASSIGN_OR_RETURN(text.choices, Choices(row, where));
  HC_ASSIGN_OR_RETURN(text.question, text_.Render(row, where));
  HC_ASSIGN_OR_RETURN(text.target, target_.Render(row, where));
  const size_t count = text.choices.size();
  HC_ASSIGN_OR_RETURN(const std::optional<int> context,
                      AsIndex(text.question, count, text_.Name(where)));
  if (context.has_value()) {
    text.choices_are_contexts = true;
    text.gold = *context;
    text.question = text.choices[static_cast<size_t>(text.gold)];
    return text;
  }
  HC_ASSIGN_OR_RETURN(const std::optional<int> index,
                      AsIndex(text.target, count, target_.Name(where)));
  if (index.has_value()) {
    text.gold = *index;
    text.target = text.choices[static_cast<size_t>(text.gold)];
    return text;
  }
  const auto found = std::find(text.choices.begin(), text.choices.end(), text.target);
  if (found != text.choices.end()) text.gold = static_cast<int>(found - text.choices.begin());
  return text;
}

absl::StatusOr<std::vector<std::string>> RowTemplates::Choices(const json& row,
                                                               const std::string& where) const {
  std::vector<std::string> choices;
  if (!choices_are_one_list_) {
    for (const RowTemplate& choice : choices_) {
      HC_ASSIGN_OR_RETURN(std::string text, choice.Render(row, where));
      choices.push_back(std::move(text));
    }
    return choices;
  }
  HC_ASSIGN_OR_RETURN(const std::string text, choices_[0].Render(row, where));
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array() || list.size() < 2 || list.size() > 32) {
    return absl::InvalidArgumentError(absl::StrCat(
        choices_[0].Name(where), ": must give a list of 2 to 32 choices, gave ", text));
  }
  for (const json& choice : list) {
    choices.push_back(choice.is_string() ? choice.get<std::string>() : choice.dump());
  }
  return choices;
}

}  // namespace headcount::eval
