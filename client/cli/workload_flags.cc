// See workload_flags.h.

#include "client/cli/workload_flags.h"

#include <google/protobuf/util/json_util.h>

#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli/rule_text.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"

namespace headcount::cli {
namespace {

absl::StatusOr<v1::InlineRequests> ReadRequests(const std::string& path) {
  constexpr uint64_t kLimit = 4 << 20;
  HC_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kLimit));
  v1::InlineRequests out;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto status = google::protobuf::util::JsonStringToMessage(line, out.add_requests());
    if (!status.ok()) {
      return InvalidField("--requests", absl::StrCat(path, ":", number),
                          absl::StrCat("must be one JSON object a line, {\"context\": ..., "
                                       "\"choices\": [...], \"gold\": 0}: ",
                                       std::string(status.message())));
    }
  }
  return out;
}

}  // namespace

void WorkloadFlags::AddTo(CLI::App* command) {
  command->add_option("--model", model, "model of the catalogue (headcount models)")->required();
  auto* task_option =
      command->add_option("--task", task, "task of the catalogue (headcount tasks)");
  command
      ->add_option("--subtask", subtasks,
                   "only these subtasks, e.g. MMLU subjects; commas between them")
      ->delimiter(',');
  command->add_option("--limit", limit, "documents per task or subtask; 0: all")
      ->capture_default_str();
  command->add_option("--num-fewshot", num_fewshot, "few-shot examples (default: the task's)");
  command
      ->add_option("--chat", chat,
                   "plain, or the model's chat template with the examples in one turn or as turns")
      ->check(CLI::IsMember({"plain", "single-turn", "multi-turn"}))
      ->capture_default_str();
  command->add_option(
      "--max-new-tokens", max_new_tokens,
      "of a task that generates: fewer new tokens than its own limit; 0: that limit");
  command
      ->add_option("--bos", bos,
                   "token in front: as lm-evaluation-harness has it, always BOS, or never")
      ->check(CLI::IsMember({"harness", "force", "none"}))
      ->capture_default_str();
  command->add_option("--split", split, "another split of the task's data");
  command->add_option("--system", system_instruction, "system instruction");
  command->add_option("--dtype", dtype, "auto (the checkpoint's), float32 or bfloat16")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--requests", requests, "JSONL file of own questions in the place of a task")
      ->excludes(task_option);
  command->add_flag("--fresh", fresh,
                    "compute everything anew, also what earlier jobs have computed");
}

void WorkloadFlags::AddPromptsTo(CLI::App* command) {
  command->add_option("--prompt", prompts, "a text in the place of a task; may be repeated")
      ->excludes("--task")
      ->excludes("--requests");
}

absl::StatusOr<v1::Workload> WorkloadFlags::ToWorkload() const {
  v1::Workload out;
  out.set_model(model);
  if (dtype == "float32") out.set_dtype(v1::DTYPE_FLOAT32);
  if (dtype == "bfloat16") out.set_dtype(v1::DTYPE_BFLOAT16);
  out.set_fresh(fresh);
  for (const std::string& prompt : prompts) {
    out.mutable_requests()->add_requests()->set_context(prompt);
  }
  if (!prompts.empty()) return out;
  if (!requests.empty()) {
    HC_ASSIGN_OR_RETURN(*out.mutable_requests(), ReadRequests(requests));
    return out;
  }
  if (task.empty()) return InvalidField("--task", "", "is required unless --requests names a file");
  v1::TaskSource* source = out.mutable_task();
  source->set_task(task);
  for (const std::string& subtask : subtasks) source->add_subtasks(subtask);
  source->set_limit(limit);
  if (num_fewshot >= 0) source->set_num_fewshot(num_fewshot);
  if (chat == "single-turn") source->set_chat(v1::CHAT_FORMAT_SINGLE_TURN);
  if (chat == "multi-turn") source->set_chat(v1::CHAT_FORMAT_MULTI_TURN);
  source->set_system_instruction(system_instruction);
  if (bos == "force") source->set_bos(v1::BOS_FORCE);
  if (bos == "none") source->set_bos(v1::BOS_NONE);
  source->set_split(split);
  source->set_max_new_tokens(max_new_tokens);
  return out;
}

void LayerFlags::AddTo(CLI::App* command) {
  auto* in = command->add_option("--layers", include, "only in these layers, e.g. 2-10,12");
  command->add_option("--exclude-layers", exclude, "in all layers but these")->excludes(in);
}

absl::StatusOr<v1::LayerSelection> LayerFlags::ToLayers() const {
  v1::LayerSelection out;
  if (!include.empty()) {
    HC_ASSIGN_OR_RETURN(const std::vector<int> layers, ParseIntegers("--layers", include));
    for (int layer : layers) out.add_include(layer);
  }
  if (!exclude.empty()) {
    HC_ASSIGN_OR_RETURN(const std::vector<int> layers, ParseIntegers("--exclude-layers", exclude));
    for (int layer : layers) out.add_exclude(layer);
  }
  return out;
}

}  // namespace headcount::cli
