// From a task file and its rows to documents: the exact text that lm-evaluation-harness 0.4.5
// builds for a multiple_choice task, plain or through a chat template; and inline requests as they
// stand.
//
// Called by worker/eval/prepare. Pure functions of their arguments and the data files. Errors name
// the task, the field of the task file and the row: INVALID_ARGUMENT for a template that fails, a
// target that is no choice, an unknown subtask, a split without rows, more few-shot examples than
// there are or some where the task names no pool; NOT_FOUND for a missing data file.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hf/chat_template.h"
#include "common/tasks/task_definition.h"
#include "headcount/v1/spec.pb.h"
#include "worker/eval/document.h"

namespace headcount::eval {

// A conversation as the model's chat template prints it, the opening of the assistant's next turn
// included.
using ChatRenderer =
    std::function<absl::StatusOr<std::string>(const std::vector<hf::ChatMessage>& messages)>;

enum class Chat {
  kNone,
  kSingleTurn,  // examples and question in one user message
  kMultiTurn,   // every example is a user and an assistant message
};

struct RenderOptions {
  std::vector<std::string> subtasks;  // with or without "<task>_" in front; empty: all
  int64_t limit = 0;                  // documents per lm-eval task, in file order; 0: all
  std::optional<int> num_fewshot;     // unset: the task's default
  Chat chat = Chat::kNone;
  std::string system_instruction;  // empty: none
  ChatRenderer render_chat;        // needed unless `chat` is kNone
};

// Documents by subtask in alphabetical order, then by row.
absl::StatusOr<std::vector<Document>> RenderTask(const tasks::TaskDefinition& task,
                                                 const std::string& data_folder,
                                                 const RenderOptions& options);

// Whether the documents of one lm-eval task begin with the same text, so that they form one group.
bool SharesPrefix(const tasks::TaskDefinition& task, const RenderOptions& options);

// The task name of inline requests in sample ids: "inline/<request>/<choice>".
inline constexpr char kInlineTask[] = "inline";

absl::StatusOr<std::vector<Document>> RenderInline(const v1::InlineRequests& requests);

}  // namespace headcount::eval
