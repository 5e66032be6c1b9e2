// See render.h.

#include "worker/eval/render.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/eval/dataset.h"
#include "worker/eval/examples.h"
#include "worker/eval/row_templates.h"
#include "worker/eval/unicode.h"

namespace headcount::eval {
namespace {

using nlohmann::json;

std::string FilePath(const tasks::TaskDefinition& task, const std::string& data_folder,
                     const std::string& split, const std::string& subtask) {
  std::string pattern = task.splits.at(split);
  constexpr std::string_view kSubtask = "{subtask}";
  if (const size_t at = pattern.find(kSubtask); at != std::string::npos) {
    pattern.replace(at, kSubtask.size(), subtask);
  }
  return (std::filesystem::path(data_folder) / pattern).string();
}

absl::StatusOr<std::vector<json>> ReadSplit(const tasks::TaskDefinition& task,
                                            const std::string& data_folder,
                                            const std::string& split, const std::string& subtask,
                                            int64_t limit) {
  auto rows =
      ReadRows(FilePath(task, data_folder, split, subtask), task.format, task.columns, limit);
  if (!rows.ok()) return Annotate(rows.status(), "task " + task.task);
  if (!subtask.empty()) {
    for (json& row : *rows) row["subtask"] = subtask;
  }
  return rows;
}

class Renderer {
 public:
  Renderer(const tasks::TaskDefinition& task, const RenderOptions& options,
           const RowTemplates& templates)
      : task_(task), options_(options), templates_(templates) {}

  absl::StatusOr<Document> Render(const std::string& lm_eval_name, const json& row, int64_t index,
                                  Examples& examples) const {
    const std::string where = absl::StrCat("row ", index);
    Document document;
    document.task = lm_eval_name;
    document.row = index;
    HC_ASSIGN_OR_RETURN(const RowText text, templates_.Render(row, where));
    if (tasks::ReadsItsAnswer(task_.output_type)) {
      document.gold = 0;
      document.continuations = {text.target};  // as it stands, without a delimiter
      document.choice_lengths = {static_cast<int32_t>(CodePoints(text.target))};
      document.words = CountWords(text.target);
      document.bytes = static_cast<int64_t>(text.target.size());
      document.rolling = task_.output_type == tasks::OutputType::kLoglikelihoodRolling;
      if (document.rolling) return document;
    } else if (task_.output_type == tasks::OutputType::kGenerateUntil) {
      document.gold_text = text.target;
    } else if (text.gold < 0) {
      return InvalidField(absl::StrCat("task ", lm_eval_name, ": doc_to_target: ", where),
                          text.target, "is none of the choices");
    }
    if (!tasks::ReadsItsAnswer(task_.output_type)) document.gold = text.gold;
    for (const std::string& choice : text.choices) {
      if (text.choices_are_contexts) {
        document.context_ends.push_back(choice);
        document.continuations.push_back(task_.target_delimiter + text.target);
      } else {
        document.continuations.push_back(task_.target_delimiter + choice);
      }
      document.choice_lengths.push_back(static_cast<int32_t>(CodePoints(choice)));
    }
    // Contexts go on after what is rendered here, outside a chat's messages too.
    const std::optional<std::string> question =
        text.choices_are_contexts ? std::nullopt : std::optional(text.question);
    HC_ASSIGN_OR_RETURN(const std::string description, templates_.Description(row, where));
    auto context = Context(description, row, question, examples);
    if (!context.ok()) return Annotate(context.status(), "task " + lm_eval_name);
    document.context = *std::move(context);
    return document;
  }

 private:
  absl::StatusOr<std::string> Context(const std::string& description, const json& row,
                                      const std::optional<std::string>& question,
                                      Examples& examples) const {
    std::string system = options_.system_instruction;
    if (!system.empty() && !description.empty()) system += "\n\n";
    system += description;
    HC_ASSIGN_OR_RETURN(std::vector<const RowText*> shots, examples.Draw(row));
    if (options_.chat == Chat::kNone) return system + Plain(shots) + question.value_or("");
    std::vector<hf::ChatMessage> messages;
    if (!system.empty()) messages.push_back({"system", system});
    if (options_.chat == Chat::kMultiTurn) {
      for (const RowText* shot : shots) {
        messages.push_back({"user", shot->question});
        messages.push_back({"assistant", shot->target});
      }
      if (question.has_value()) messages.push_back({"user", *question});
    } else {
      // The harness draws twice and shows the second draw.
      HC_ASSIGN_OR_RETURN(shots, examples.Draw(row));
      if (question.has_value() || !shots.empty()) {
        messages.push_back({"user", Plain(shots) + question.value_or("")});
      }
    }
    return options_.render_chat(messages);
  }

  std::string Plain(const std::vector<const RowText*>& shots) const {
    std::string text;
    for (const RowText* shot : shots) {
      text += shot->question;
      if (!shot->target.empty()) {  // the harness adds no delimiters around an empty target
        text += task_.target_delimiter + shot->target + task_.fewshot_delimiter;
      }
    }
    return text;
  }

  const tasks::TaskDefinition& task_;
  const RenderOptions& options_;
  const RowTemplates& templates_;
};

// The subtasks to run, without the task's name in front; {""} for a task that has none.
absl::StatusOr<std::vector<std::string>> SelectSubtasks(const tasks::TaskDefinition& task,
                                                        const std::string& data_folder,
                                                        const RenderOptions& options) {
  HC_ASSIGN_OR_RETURN(const std::vector<std::string> all, ListSubtasks(task, data_folder));
  if (options.subtasks.empty()) return all.empty() ? std::vector<std::string>{""} : all;
  std::vector<std::string> selected;
  const std::string prefix = task.task + "_";
  for (const std::string& name : options.subtasks) {
    const auto known = [&all](const std::string& subtask) {
      return std::find(all.begin(), all.end(), subtask) != all.end();
    };
    if (known(name)) {
      selected.push_back(name);
    } else if (name.starts_with(prefix) && known(name.substr(prefix.size()))) {
      selected.push_back(name.substr(prefix.size()));
    } else {
      return InvalidField(
          "subtasks", name,
          absl::StrCat("task ", task.task, " has no such subtask among its ", all.size()));
    }
  }
  std::sort(selected.begin(), selected.end());
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  return selected;
}

}  // namespace

bool SharesPrefix(const tasks::TaskDefinition& task, const RenderOptions& options) {
  if (task.output_type == tasks::OutputType::kLoglikelihoodRolling) return false;
  if (options.num_fewshot.value_or(task.num_fewshot) > 0) {
    return task.sampler == tasks::Sampler::kFirstN;
  }
  return task.discover_subtasks || !task.subtasks.empty();
}

absl::StatusOr<std::vector<Document>> RenderTask(const tasks::TaskDefinition& task,
                                                 const std::string& data_folder,
                                                 const RenderOptions& options) {
  HC_ASSIGN_OR_RETURN(const RowTemplates templates, RowTemplates::Parse(task));
  const Renderer renderer(task, options, templates);
  const int shots = options.num_fewshot.value_or(task.num_fewshot);
  if (shots > 0 && task.fewshot_split.empty()) {
    return InvalidField("num_fewshot", std::to_string(shots),
                        absl::StrCat("must be 0: task ", task.task,
                                     " names no split to take few-shot examples from"));
  }
  HC_ASSIGN_OR_RETURN(const std::vector<std::string> subtasks,
                      SelectSubtasks(task, data_folder, options));
  std::vector<Document> documents;
  for (const std::string& name : subtasks) {
    const std::string lm_eval_name = name.empty() ? task.task : absl::StrCat(task.task, "_", name);
    HC_ASSIGN_OR_RETURN(const std::vector<json> rows,
                        ReadSplit(task, data_folder, task.test_split, name, options.limit));
    if (rows.empty()) {
      return InvalidField(absl::StrCat("task ", lm_eval_name, ": split ", task.test_split), "",
                          "has no rows");
    }
    std::vector<json> pool;
    if (shots > 0) {
      HC_ASSIGN_OR_RETURN(pool, ReadSplit(task, data_folder, task.fewshot_split, name,
                                          Examples::PoolRows(task, shots)));
    }
    HC_ASSIGN_OR_RETURN(Examples examples,
                        Examples::Make(task, templates, lm_eval_name, std::move(pool), shots));
    for (size_t i = 0; i < rows.size(); ++i) {
      HC_ASSIGN_OR_RETURN(Document document, renderer.Render(lm_eval_name, rows[i],
                                                             static_cast<int64_t>(i), examples));
      documents.push_back(std::move(document));
    }
  }
  return documents;
}

absl::StatusOr<std::vector<Document>> RenderInline(const v1::InlineRequests& requests) {
  std::vector<Document> documents;
  documents.reserve(requests.requests_size());
  for (const v1::InlineRequest& request : requests.requests()) {
    Document document;
    document.task = kInlineTask;
    document.row = static_cast<int64_t>(documents.size());
    document.context = request.context();
    for (const std::string& choice : request.choices()) {
      document.continuations.push_back(choice);
      const size_t blank = choice.starts_with(' ') ? 1 : 0;
      document.choice_lengths.push_back(
          static_cast<int32_t>(CodePoints(std::string_view(choice).substr(blank))));
    }
    if (request.has_gold()) {
      if (request.gold() < 0 || request.gold() >= request.choices_size()) {
        return InvalidField(absl::StrCat("requests[", document.row, "].gold"),
                            std::to_string(request.gold()),
                            absl::StrCat("must be an index below ", request.choices_size()));
      }
      document.gold = request.gold();
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace headcount::eval
