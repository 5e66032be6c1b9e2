// The model and the samples of a job. See spec_checks.h.

#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "server/plan/prepare_key.h"
#include "server/plan/spec_checks.h"

namespace headcount::plan {
namespace {

// A look-up's error with the field that named the thing.
absl::Status At(const absl::Status& status, const std::string& path) {
  return WithField(Annotate(status, path), path);
}

absl::Status CheckSubtasks(const v1::TaskSource& source, const TaskFacts& facts,
                           const std::string& path) {
  if (source.subtasks().empty()) return absl::OkStatus();
  if (facts.subtasks.empty()) {
    return InvalidField(path, source.subtasks(0),
                        absl::StrCat("task ", source.task(), " has no subtasks"));
  }
  std::set<std::string_view> known;
  for (const std::string& subtask : facts.subtasks) {
    known.insert(ShortSubtask(source.task(), subtask));
  }
  std::set<std::string_view> seen;
  for (int i = 0; i < source.subtasks_size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    HC_RETURN_IF_ERROR(CheckResourceId(at, source.subtasks(i)));
    const std::string_view subtask = ShortSubtask(source.task(), source.subtasks(i));
    if (!known.contains(subtask)) {
      return WithField(
          WithReason(absl::NotFoundError(absl::StrCat(at, ": task ", source.task(),
                                                      " has no subtask ", source.subtasks(i))),
                     "SUBTASK_NOT_FOUND"),
          at);
    }
    if (!seen.insert(subtask).second) {
      return InvalidField(at, source.subtasks(i), "names a subtask that is in the list already");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChat(v1::ChatFormat chat, bool has_template, const std::string& path) {
  switch (chat) {
    case v1::CHAT_FORMAT_UNSPECIFIED:
    case v1::CHAT_FORMAT_PLAIN:
      return absl::OkStatus();
    case v1::CHAT_FORMAT_SINGLE_TURN:
    case v1::CHAT_FORMAT_MULTI_TURN:
      if (has_template) return absl::OkStatus();
      return WithField(
          WithReason(absl::FailedPreconditionError(absl::StrCat(
                         path, ": the model's tokenizer_config.json has no chat_template")),
                     "NO_CHAT_TEMPLATE"),
          path);
    default:
      return InvalidField(path, std::to_string(chat), "is not a chat format");
  }
}

absl::Status CheckNewTokens(const v1::TaskSource& source, const tasks::TaskDefinition& task,
                            const std::string& path) {
  const std::string value = std::to_string(source.max_new_tokens());
  if (task.output_type == tasks::OutputType::kGenerateUntil) {
    if (source.max_new_tokens() >= 0 && source.max_new_tokens() <= task.max_new_tokens) {
      return absl::OkStatus();
    }
    return InvalidField(path, value,
                        absl::StrCat("must be 0 to ", task.max_new_tokens, ", the task's own"));
  }
  if (source.max_new_tokens() == 0) return absl::OkStatus();
  return InvalidField(path, value,
                      absl::StrCat("must be 0: task ", source.task(), " generates nothing"));
}

// What a whole text is read after is the tokenizer's to say, and nothing else comes before it.
absl::Status CheckRolling(const v1::TaskSource& source, const std::string& path) {
  const std::string why =
      absl::StrCat("task ", source.task(), " scores a text from its first token");
  if (source.num_fewshot() > 0) {
    return InvalidField(path + ".num_fewshot", std::to_string(source.num_fewshot()),
                        "must be 0: " + why);
  }
  if (source.chat() != v1::CHAT_FORMAT_UNSPECIFIED && source.chat() != v1::CHAT_FORMAT_PLAIN) {
    return InvalidField(path + ".chat", v1::ChatFormat_Name(source.chat()),
                        "must be CHAT_FORMAT_PLAIN: " + why);
  }
  if (!source.system_instruction().empty()) {
    return InvalidField(path + ".system_instruction", source.system_instruction().substr(0, 100),
                        "must be empty: " + why);
  }
  if (source.bos() == v1::BOS_FORCE || source.bos() == v1::BOS_NONE) {
    return InvalidField(path + ".bos", v1::Bos_Name(source.bos()), "must be BOS_HARNESS: " + why);
  }
  return absl::OkStatus();
}

// The task's kind.
absl::StatusOr<tasks::OutputType> CheckTaskSource(const v1::TaskSource& source,
                                                  const std::string& path, const ModelFacts& model,
                                                  const ValidationContext& context) {
  if (!v1::Bos_IsValid(source.bos())) {
    return InvalidField(path + ".bos", std::to_string(source.bos()), "is not a BOS rule");
  }
  HC_RETURN_IF_ERROR(CheckResourceId(path + ".task", source.task()));
  if (source.limit() < 0) {
    return InvalidField(path + ".limit", std::to_string(source.limit()),
                        "must be 1 or more, or 0 for all documents");
  }
  if (source.has_num_fewshot() &&
      (source.num_fewshot() < 0 || source.num_fewshot() > kMaxFewshot)) {
    return InvalidField(path + ".num_fewshot", std::to_string(source.num_fewshot()),
                        absl::StrCat("must be in [0, ", kMaxFewshot, "]"));
  }
  if (source.system_instruction().size() > kMaxSystemInstructionBytes) {
    return InvalidField(path + ".system_instruction",
                        absl::StrCat(source.system_instruction().size(), " bytes"),
                        absl::StrCat("must be at most ", kMaxSystemInstructionBytes, " bytes"));
  }
  HC_RETURN_IF_ERROR(CheckChat(source.chat(), model.has_chat_template, path + ".chat"));

  const absl::StatusOr<TaskFacts> facts = context.catalog.FindTask(source.task(), source.split());
  if (!facts.ok()) {
    return At(facts.status(), path + (FieldOf(facts.status()) == "split" ? ".split" : ".task"));
  }
  const int shots =
      source.has_num_fewshot() ? source.num_fewshot() : facts->definition->num_fewshot;
  if (shots > 0 && facts->definition->fewshot_split.empty()) {
    return InvalidField(path + ".num_fewshot", std::to_string(shots),
                        absl::StrCat("must be 0: task ", source.task(),
                                     " names no split to take few-shot examples from"));
  }
  if (shots > 0 && !facts->missing_pool.empty()) {
    return WithField(WithReason(absl::FailedPreconditionError(absl::StrCat(
                                    path, ".num_fewshot: ", shots, " examples are to come from ",
                                    facts->missing_pool, ", which is not there")),
                                "DATA_NOT_FOUND"),
                     path + ".num_fewshot");
  }
  HC_RETURN_IF_ERROR(CheckNewTokens(source, *facts->definition, path + ".max_new_tokens"));
  HC_RETURN_IF_ERROR(CheckSubtasks(source, *facts, path + ".subtasks"));
  const tasks::OutputType type = facts->definition->output_type;
  if (type == tasks::OutputType::kLoglikelihoodRolling) {
    HC_RETURN_IF_ERROR(CheckRolling(source, path));
  }
  return type;
}

absl::Status CheckInlineRequest(const v1::InlineRequest& request, const std::string& path,
                                bool answers) {
  if (request.context().empty()) return InvalidField(path + ".context", "", "must not be empty");
  const int choices = request.choices_size();
  if (choices == 0 && answers) {
    return InvalidField(path + ".choices", "0",
                        absl::StrCat("must be 2 to ", kMaxInlineChoices,
                                     " choices: ablate and sweep jobs measure accuracy"));
  }
  if (choices == 1 || choices > kMaxInlineChoices) {
    return InvalidField(path + ".choices", std::to_string(choices),
                        absl::StrCat("must be none or 2 to ", kMaxInlineChoices));
  }
  for (int i = 0; i < choices; ++i) {
    if (request.choices(i).empty()) {
      return InvalidField(absl::StrCat(path, ".choices[", i, "]"), "", "must not be empty");
    }
  }
  if (request.has_gold() && (request.gold() < 0 || request.gold() >= choices)) {
    return InvalidField(path + ".gold", std::to_string(request.gold()),
                        choices == 0 ? std::string("must be unset without choices")
                                     : absl::StrCat("must be in [0, ", choices - 1, "]"));
  }
  if (answers && !request.has_gold()) {
    return InvalidField(path + ".gold", "unset",
                        "is required: ablate and sweep jobs measure accuracy");
  }
  return absl::OkStatus();
}

absl::Status CheckInlineRequests(const v1::InlineRequests& requests, const std::string& path,
                                 bool answers, const ValidationLimits& limits) {
  if (requests.requests().empty()) {
    return InvalidField(path, "", "must hold at least one request");
  }
  if (requests.requests_size() > kMaxInlineRequests) {
    return InvalidField(path, absl::StrCat(requests.requests_size(), " requests"),
                        absl::StrCat("must be at most ", kMaxInlineRequests, " requests"));
  }
  const auto bytes = static_cast<int64_t>(requests.ByteSizeLong());
  if (bytes > limits.max_inline_bytes) {
    return InvalidField(path, absl::StrCat(bytes, " bytes"),
                        absl::StrCat("must be at most ", limits.max_inline_bytes, " bytes"));
  }
  for (int i = 0; i < requests.requests_size(); ++i) {
    HC_RETURN_IF_ERROR(CheckInlineRequest(requests.requests(i),
                                          absl::StrCat(path, ".requests[", i, "]"), answers));
  }
  return absl::OkStatus();
}

absl::Status CheckDType(v1::DType dtype, const std::string& path) {
  switch (dtype) {
    case v1::DTYPE_UNSPECIFIED:
    case v1::DTYPE_FLOAT32:
    case v1::DTYPE_BFLOAT16:
      return absl::OkStatus();
    case v1::DTYPE_FLOAT16:
      return UnimplementedField(path);
    default:
      return InvalidField(path, std::to_string(dtype), "is not a dtype");
  }
}

}  // namespace

absl::StatusOr<ModelShape> CheckWorkload(const v1::Workload& workload, const std::string& path,
                                         bool answers, const ValidationContext& context) {
  HC_RETURN_IF_ERROR(CheckModelName(path + ".model", workload.model()));
  HC_RETURN_IF_ERROR(CheckDType(workload.dtype(), path + ".dtype"));
  if (workload.source_case() == v1::Workload::kUpload) {
    return UnimplementedField(path + ".upload");
  }
  if (workload.source_case() == v1::Workload::SOURCE_NOT_SET) {
    return InvalidField(path + ".source", "", "one of task and requests is required");
  }
  const absl::StatusOr<ModelFacts> model = context.catalog.FindModel(workload.model());
  if (!model.ok()) return At(model.status(), path + ".model");
  ModelShape shape{.layers = model->config.layers,
                   .heads = model->config.heads,
                   .kv_heads = model->config.kv_heads};
  if (workload.has_task()) {
    HC_ASSIGN_OR_RETURN(const tasks::OutputType type,
                        CheckTaskSource(workload.task(), path + ".task", *model, context));
    shape.generates = type == tasks::OutputType::kGenerateUntil;
    shape.reads_its_answer = tasks::ReadsItsAnswer(type);
  } else {
    HC_RETURN_IF_ERROR(
        CheckInlineRequests(workload.requests(), path + ".requests", answers, context.limits));
  }
  return shape;
}

}  // namespace headcount::plan
