// See render.h.

#include "worker/eval/render.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/eval/dataset.h"
#include "worker/eval/row_templates.h"
#include "worker/eval/unicode.h"

namespace headcount::eval {
namespace {

using nlohmann::json;

// One row of the few-shot pool, rendered.
struct Example {
  const json* row;
  std::string text;
  std::string target;
};

// Everything about one lm-eval task that does not change from document to document.
struct Subtask {
  std::string lm_eval_name;
  std::vector<json> rows;
  std::vector<json> pool;
  std::vector<Example> examples;
};

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

// What the target template says: the index of a choice, or text.
struct Target {
  int index = -1;
  std::string text;
};

class Renderer {
 public:
  Renderer(const tasks::TaskDefinition& task, const RenderOptions& options,
           const RowTemplates& templates)
      : task_(task),
        options_(options),
        templates_(templates),
        shots_(options.num_fewshot.value_or(task.num_fewshot)) {}

  int shots() const { return shots_; }

  // As the harness' first_n sampler: one more where the pool is the evaluated split itself, because
  // the evaluated row is then left out.
  absl::Status MakeExamples(Subtask* subtask) const {
    const size_t wanted = static_cast<size_t>(shots_) + (PoolIsTest() ? 1 : 0);
    if (shots_ > 0 && subtask->pool.size() < wanted) {
      return InvalidField("num_fewshot", std::to_string(shots_),
                          absl::StrCat(subtask->lm_eval_name, " has only ", subtask->pool.size(),
                                       " rows in split ", task_.fewshot_split));
    }
    for (size_t i = 0; shots_ > 0 && i < wanted; ++i) {
      const json& row = subtask->pool[i];
      const std::string where = absl::StrCat("few-shot row ", i);
      Example example{&row, "", ""};
      HC_ASSIGN_OR_RETURN(example.text, templates_.Text(row, where));
      HC_ASSIGN_OR_RETURN(const std::vector<std::string> choices, templates_.Choices(row, where));
      HC_ASSIGN_OR_RETURN(const Target target, ReadTarget(row, choices, where));
      example.target = target.index >= 0 ? choices[target.index] : target.text;
      subtask->examples.push_back(std::move(example));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Document> Render(const Subtask& subtask, size_t index) const {
    const json& row = subtask.rows[index];
    const std::string where = absl::StrCat("row ", index);
    Document document;
    document.task = subtask.lm_eval_name;
    document.row = static_cast<int64_t>(index);

    HC_ASSIGN_OR_RETURN(const std::vector<std::string> choices, templates_.Choices(row, where));
    HC_ASSIGN_OR_RETURN(Target target, ReadTarget(row, choices, where));
    if (target.index < 0) {
      const auto found = std::find(choices.begin(), choices.end(), target.text);
      if (found == choices.end()) {
        return InvalidField(absl::StrCat("task ", subtask.lm_eval_name, ": doc_to_target: ", where),
                            target.text, "is none of the choices");
      }
      target.index = static_cast<int>(found - choices.begin());
    }
    document.gold = target.index;
    for (const std::string& choice : choices) {
      document.continuations.push_back(task_.target_delimiter + choice);
      document.choice_lengths.push_back(static_cast<int32_t>(CodePoints(choice)));
    }

    HC_ASSIGN_OR_RETURN(const std::string text, templates_.Text(row, where));
    HC_ASSIGN_OR_RETURN(const std::string description, templates_.Description(row, where));
    std::string system = options_.system_instruction;
    if (!system.empty() && !description.empty()) system += "\n\n";
    system += description;
    if (options_.chat == Chat::kNone) {
      document.context = system + PlainExamples(subtask, row) + text;
    } else {
      auto chat = options_.render_chat(Messages(subtask, row, system, text));
      if (!chat.ok()) return Annotate(chat.status(), "task " + subtask.lm_eval_name);
      document.context = *std::move(chat);
    }
    return document;
  }

 private:
  bool PoolIsTest() const { return task_.fewshot_split == task_.test_split; }

  absl::StatusOr<Target> ReadTarget(const json& row, const std::vector<std::string>& choices,
                                    const std::string& where) const {
    Target target;
    HC_ASSIGN_OR_RETURN(target.text, templates_.Target(row, where));
    const bool digits =
        !target.text.empty() && target.text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) return target;
    const int index = target.text.size() > 4 ? -1 : std::stoi(target.text);
    if (index < 0 || index >= static_cast<int>(choices.size())) {
      return InvalidField(absl::StrCat("task ", task_.task, ": doc_to_target: ", where),
                          target.text,
                          absl::StrCat("must be an index below the ", choices.size(), " choices"));
    }
    target.index = index;
    return target;
  }

  std::vector<const Example*> ExamplesFor(const Subtask& subtask, const json& row) const {
    std::vector<const Example*> chosen;
    for (const Example& example : subtask.examples) {
      if (PoolIsTest() && *example.row == row) continue;
      if (chosen.size() < static_cast<size_t>(shots_)) chosen.push_back(&example);
    }
    return chosen;
  }

  std::string PlainExamples(const Subtask& subtask, const json& row) const {
    std::string text;
    for (const Example* example : ExamplesFor(subtask, row)) {
      text += example->text;
      if (!example->target.empty()) {  // the harness adds no delimiters around an empty target
        text += task_.target_delimiter + example->target + task_.fewshot_delimiter;
      }
    }
    return text;
  }

  std::vector<hf::ChatMessage> Messages(const Subtask& subtask, const json& row,
                                        const std::string& system,
                                        const std::string& question) const {
    std::vector<hf::ChatMessage> messages;
    if (!system.empty()) messages.push_back({"system", system});
    if (options_.chat == Chat::kMultiTurn) {
      for (const Example* example : ExamplesFor(subtask, row)) {
        messages.push_back({"user", example->text});
        messages.push_back({"assistant", example->target});
      }
      messages.push_back({"user", question});
    } else {
      messages.push_back({"user", PlainExamples(subtask, row) + question});
    }
    return messages;
  }

  const tasks::TaskDefinition& task_;
  const RenderOptions& options_;
  const RowTemplates& templates_;
  const int shots_;
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
  return options.num_fewshot.value_or(task.num_fewshot) > 0 || task.discover_subtasks ||
         !task.subtasks.empty();
}

absl::StatusOr<std::vector<Document>> RenderTask(const tasks::TaskDefinition& task,
                                                 const std::string& data_folder,
                                                 const RenderOptions& options) {
  HC_ASSIGN_OR_RETURN(const RowTemplates templates, RowTemplates::Parse(task));
  const Renderer renderer(task, options, templates);
  if (renderer.shots() > 0 && task.fewshot_split.empty()) {
    return WithReason(absl::UnimplementedError(absl::StrCat(
                          "num_fewshot: task ", task.task, " names no fewshot_split with first_n; ",
                          "only 0 is served (got ", renderer.shots(), ")")),
                      "FEWSHOT_NOT_SERVED");
  }
  HC_ASSIGN_OR_RETURN(const std::vector<std::string> subtasks,
                      SelectSubtasks(task, data_folder, options));
  std::vector<Document> documents;
  for (const std::string& name : subtasks) {
    Subtask subtask;
    subtask.lm_eval_name = name.empty() ? task.task : absl::StrCat(task.task, "_", name);
    HC_ASSIGN_OR_RETURN(subtask.rows,
                        ReadSplit(task, data_folder, task.test_split, name, options.limit));
    if (renderer.shots() > 0) {
      HC_ASSIGN_OR_RETURN(subtask.pool, ReadSplit(task, data_folder, task.fewshot_split, name,
                                                  renderer.shots() + 1));
      HC_RETURN_IF_ERROR(renderer.MakeExamples(&subtask));
    }
    for (size_t i = 0; i < subtask.rows.size(); ++i) {
      HC_ASSIGN_OR_RETURN(Document document, renderer.Render(subtask, i));
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
