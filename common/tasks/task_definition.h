// A task file: a YAML with lm-evaluation-harness' field names, plus the key `headcount` that says
// where the rows lie. Read by the server (to list and check tasks) and by worker/eval (to render
// them). Immutable after load; the functions are pure but for reading files, and thread-safe.
//
//   task: mmlu                       # lm-eval's name; subtask s is lm-eval's task "mmlu_s"
//   output_type: multiple_choice     # or generate_until, with generation_kwargs and filter_list;
//                                    # loglikelihood; loglikelihood_rolling, of doc_to_target
//   test_split: test                 # else validation_split; must be a key of headcount.splits
//   fewshot_split: dev               # the pool of examples; else training_split, where
//                                    # headcount.splits has it; else no few-shot
//   fewshot_config: {sampler: first_n}  # or default: drawn anew for each row, as lm-eval draws
//   num_fewshot: 0
//   description: "... about {{ subtask | replace('_', ' ') }}.\n\n"
//   doc_to_text: "{{question.strip()}}\nAnswer:"  # a bare column name stands for that column;
//                                    # digits: the index of the right choice, and the choices are
//                                    # contexts that doc_to_target continues
//   doc_to_choice: ["A", "B"]        # a list of templates, one "{{ [sol1, sol2] }}", or a column
//   doc_to_target: "{{label}}"       # digits: an index; else the text of a choice
//   metric_list: [{metric: acc}, {metric: acc_norm}]  # of generate_until: exact_match; of
//                                    # loglikelihood: perplexity, acc; of loglikelihood_rolling:
//                                    # word_perplexity, byte_perplexity, bits_per_byte
//   generation_kwargs: {until: ["\n\n"], max_gen_toks: 256}
//   filter_list: [{name: n, filter: [{function: regex, regex_pattern: "..."}]}]
//   headcount:
//     title: what people read in the list of tasks
//     data: mmlu                     # key of the config's `data`; without it, ./data/mmlu
//     format: csv                    # or jsonl, parquet; text: paragraphs, each {"text": ...}
//     columns: [question, A, B, C, D, answer]      # csv only: the files have no header line
//     splits: {test: "test/{subtask}_test.csv", dev: "dev/{subtask}_dev.csv"}
//     subtasks: {pattern: "test/{subtask}_test.csv"}  # or a list; absent: the task has none
//
// Keys of lm-eval that say where Hugging Face keeps the rows, and metadata, are accepted and have
// no effect. Errors: INVALID_ARGUMENT naming file, key, value and what is allowed, also for an
// unknown key; `!function` is refused because a task never runs code; UNIMPLEMENTED for an
// output_type, few-shot sampler or filter that is not served.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tasks/answers.h"

namespace headcount::tasks {

enum class OutputType {
  kMultipleChoice,
  kGenerateUntil,
  kLoglikelihood,         // of one continuation, doc_to_target, which the model would write or not
  kLoglikelihoodRolling,  // of a whole text, doc_to_target, in windows that fill the context
};
std::string_view OutputTypeName(OutputType type);  // lm-eval's
// Whether the task scores the very tokens that the model reads: a rule that looks at the input
// before it decides would know what is to be predicted.
bool ReadsItsAnswer(OutputType type);
inline constexpr int kMostNewTokens = 8192;

enum class FileFormat { kCsv, kJsonl, kParquet, kText };
enum class Sampler {
  kDefault,  // drawn anew for each evaluated row
  kFirstN,   // the pool's first rows
};

struct TaskDefinition {
  std::string task;   // "mmlu"
  std::string title;  // for people
  OutputType output_type = OutputType::kMultipleChoice;

  // Where the rows lie: file patterns below the data folder; "{subtask}" stands for the subtask.
  std::string
      data;  // data-set name: a key of the config's `data`, else data/<name> beside the file
  FileFormat format = FileFormat::kJsonl;
  std::vector<std::string> columns;           // CSV without a header line
  std::map<std::string, std::string> splits;  // split -> pattern
  std::vector<std::string> subtasks;  // empty: the task has none, unless `discover_subtasks`
  bool discover_subtasks = false;     // subtasks are what `subtask_pattern` finds
  std::string subtask_pattern;        // "{subtask}" once, in the file's name

  std::string test_split;
  std::string fewshot_split;  // empty: there is no pool, few-shot is refused
  Sampler sampler = Sampler::kDefault;
  // One example more is taken than asked for, and the evaluated row left out of them. lm-eval does
  // so where the file gives fewshot_split and test_split the same name or neither of them.
  bool spare_example = false;
  int num_fewshot = 0;  // default
  // Jinja over the row's columns and `subtask`.
  std::string description;
  std::string doc_to_text;
  std::vector<std::string>
      doc_to_choice;  // templates one a choice; or a single template that yields a list
  bool doc_to_choice_is_list_template = false;
  std::string doc_to_target;  // yields an index, or a choice's text
  std::string target_delimiter = " ";
  std::string fewshot_delimiter = "\n\n";
  // acc, acc_norm; one "exact_match,<filter>" a filter; or perplexities.
  std::vector<std::string> metrics;

  // Of generate_until.
  std::vector<std::string> until;  // what ends a text, beside the model's own end-of-text token
  int max_new_tokens = 256;
  std::vector<AnswerMetric> answer_metrics;  // as `metrics`

  std::string file;    // path it was read from
  std::string folder;  // folder of the file
  std::string digest;  // SHA-256 of the file's bytes
};

absl::StatusOr<TaskDefinition> ParseTaskDefinition(const std::string& yaml,
                                                   const std::string& file);

// The same task over another of its splits; an empty name is its own. Where its examples come from
// that very split, one more is drawn and the evaluated row left out of them. INVALID_ARGUMENT: no
// such split, naming those there are.
absl::StatusOr<TaskDefinition> WithSplit(TaskDefinition task, const std::string& split);

// All *.yaml of `folders`, by task name; a later folder overrides an earlier one. Files that do not
// parse are returned as errors beside the good ones, so that one bad file does not hide the rest.
struct TaskSet {
  std::map<std::string, TaskDefinition> tasks;
  std::map<std::string, absl::Status> problems;  // file -> why
};
TaskSet LoadTaskDefinitions(const std::vector<std::string>& folders);

// The folder of the task files that come with headcount: share/headcount/tasks beside the program's
// bin folder where it is installed, else the source tree's.
std::string ShippedTaskFolder();

// The folder of a task's rows: from the config's map, else data/<name> beside the task file.
// NOT_FOUND naming the key to configure.
absl::StatusOr<std::string> DataFolder(const TaskDefinition& task,
                                       const std::map<std::string, std::string>& data);

// The task's subtasks as they are now, sorted; empty where it has none. Reads folder names only.
absl::StatusOr<std::vector<std::string>> ListSubtasks(const TaskDefinition& task,
                                                      const std::string& data_folder);

}  // namespace headcount::tasks
