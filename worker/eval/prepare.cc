// See prepare.h.

#include "worker/eval/prepare.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/catalog/model_config.h"
#include "common/format/frame.h"
#include "common/hf/chat_template.h"
#include "common/hf/tokenizer.h"
#include "common/tasks/task_definition.h"
#include "worker/eval/manifest.h"
#include "worker/eval/render.h"

namespace headcount::eval {
namespace {

constexpr uint64_t kLargestTokenizer = uint64_t{1} << 28;

absl::StatusOr<RenderOptions> ReadOptions(const v1::TaskSource& source,
                                          const std::string& model_directory) {
  RenderOptions options;
  options.subtasks.assign(source.subtasks().begin(), source.subtasks().end());
  options.limit = source.limit();
  if (source.has_num_fewshot()) options.num_fewshot = source.num_fewshot();
  options.system_instruction = source.system_instruction();
  switch (source.chat()) {
    case v1::CHAT_FORMAT_UNSPECIFIED:
    case v1::CHAT_FORMAT_PLAIN:
      return options;
    case v1::CHAT_FORMAT_SINGLE_TURN:
      options.chat = Chat::kSingleTurn;
      break;
    case v1::CHAT_FORMAT_MULTI_TURN:
      options.chat = Chat::kMultiTurn;
      break;
    default:
      return UnimplementedField("workload.task.chat");
  }
  auto loaded = hf::ChatTemplate::Load(model_directory);
  if (!loaded.ok()) return Annotate(loaded.status(), "workload.task.chat");
  auto chat = std::make_shared<const hf::ChatTemplate>(*std::move(loaded));
  options.render_chat = [chat](const std::vector<hf::ChatMessage>& messages) {
    return chat->Render(messages, /*add_generation_prompt=*/true);
  };
  return options;
}

struct Rendered {
  std::string task;
  std::vector<Document> documents;
  std::vector<std::string> metrics;
  bool group_by_task = false;
  std::string output_type;                   // where the manifest says it
  std::optional<v1::Generation> generation;  // without its stop tokens
  std::vector<tasks::AnswerMetric> answer_metrics;
};

absl::StatusOr<v1::Generation> ReadGeneration(const tasks::TaskDefinition& task,
                                              const v1::TaskSource& source) {
  if (source.max_new_tokens() < 0 || source.max_new_tokens() > task.max_new_tokens) {
    return InvalidField("workload.task.max_new_tokens", absl::StrCat(source.max_new_tokens()),
                        absl::StrCat("must be 0 to ", task.max_new_tokens, ", the task's own"));
  }
  v1::Generation generation;
  generation.set_max_new_tokens(source.max_new_tokens() > 0 ? source.max_new_tokens()
                                                            : task.max_new_tokens);
  for (const std::string& stop : task.until) generation.add_stop(stop);
  return generation;
}

v1::AnswerMetric ToProto(const tasks::AnswerMetric& metric) {
  v1::AnswerMetric out;
  out.set_name(metric.name);
  for (const tasks::AnswerFilter& filter : metric.filters) {
    v1::AnswerFilter* to = out.add_filters();
    using Kind = tasks::AnswerFilter::Kind;
    switch (filter.kind) {
      case Kind::kRegex:
        to->set_kind(v1::AnswerFilter::REGEX);
        to->set_pattern(filter.pattern);
        to->set_group_select(filter.group_select);
        to->set_fallback(filter.fallback);
        break;
      case Kind::kLowercase:
        to->set_kind(v1::AnswerFilter::LOWERCASE);
        break;
      case Kind::kUppercase:
        to->set_kind(v1::AnswerFilter::UPPERCASE);
        break;
      case Kind::kRemoveWhitespace:
        to->set_kind(v1::AnswerFilter::REMOVE_WHITESPACE);
        break;
    }
  }
  for (const std::string& regex : metric.regexes_to_ignore) out.add_regexes_to_ignore(regex);
  out.set_ignore_case(metric.ignore_case);
  out.set_ignore_punctuation(metric.ignore_punctuation);
  out.set_ignore_numbers(metric.ignore_numbers);
  return out;
}

absl::StatusOr<Rendered> Render(const v1::Workload& workload, const PrepareInputs& inputs,
                                const std::string& model_directory) {
  Rendered rendered;
  if (workload.has_requests()) {
    rendered.task = kInlineTask;
    rendered.metrics = {"acc", "acc_norm"};
    HC_ASSIGN_OR_RETURN(rendered.documents, RenderInline(workload.requests()));
    return rendered;
  }
  if (!workload.has_task()) return UnimplementedField("workload.source");
  const v1::TaskSource& source = workload.task();
  const tasks::TaskSet tasks = tasks::LoadTaskDefinitions(inputs.task_folders);
  const auto found = tasks.tasks.find(source.task());
  if (found == tasks.tasks.end()) {
    return WithField(absl::NotFoundError(absl::StrCat(
                         "workload.task.task: this worker has no task \"", source.task(), "\"")),
                     "workload.task.task");
  }
  const absl::StatusOr<tasks::TaskDefinition> with_split =
      tasks::WithSplit(found->second, source.split());
  if (!with_split.ok()) return Annotate(with_split.status(), "workload.task.split");
  const tasks::TaskDefinition& task = *with_split;
  HC_ASSIGN_OR_RETURN(const std::string data, DataFolder(task, inputs.data));
  HC_ASSIGN_OR_RETURN(const RenderOptions options, ReadOptions(source, model_directory));
  rendered.task = task.task;
  rendered.metrics = task.metrics;
  rendered.answer_metrics = task.answer_metrics;
  if (task.output_type == tasks::OutputType::kGenerateUntil) {
    HC_ASSIGN_OR_RETURN(rendered.generation, ReadGeneration(task, source));
  } else if (source.max_new_tokens() != 0) {
    return InvalidField("workload.task.max_new_tokens", absl::StrCat(source.max_new_tokens()),
                        absl::StrCat("must be 0: task ", task.task, " generates nothing"));
  }
  if (tasks::ReadsItsAnswer(task.output_type)) {
    rendered.output_type = std::string(tasks::OutputTypeName(task.output_type));
  }
  rendered.group_by_task = SharesPrefix(task, options);
  HC_ASSIGN_OR_RETURN(rendered.documents, RenderTask(task, data, options));
  return rendered;
}

// How texts become ids: as lm-evaluation-harness has them tokenised for this family, or with
// exactly one BOS in front, or none, whatever the template prints.
absl::StatusOr<Encoder> MakeEncoder(const v1::Workload& workload, const catalog::ModelConfig& model,
                                    const hf::Tokenizer& tokenizer) {
  const v1::Bos bos = workload.task().bos();
  if (bos != v1::BOS_FORCE && bos != v1::BOS_NONE) {
    // Inline requests are tokenised as they stand.
    const bool add_special = workload.has_task() && model.family->harness_bos;
    return [&tokenizer, add_special](std::string_view text) {
      return tokenizer.Encode(text, add_special);
    };
  }
  const std::optional<int32_t> id = tokenizer.bos_id();
  if (bos == v1::BOS_FORCE && !id.has_value()) {
    return WithField(WithReason(absl::FailedPreconditionError(absl::StrCat(
                                    "workload.task.bos: the tokenizer of ", workload.model(),
                                    " has no BOS token to put in front")),
                                "NO_BOS_TOKEN"),
                     "workload.task.bos");
  }
  return [&tokenizer, id, bos](std::string_view text) -> absl::StatusOr<std::vector<int32_t>> {
    HC_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(text, false));
    const auto first = std::find_if(ids.begin(), ids.end(), [&](int32_t i) { return i != id; });
    ids.erase(ids.begin(), first);
    if (bos == v1::BOS_FORCE) ids.insert(ids.begin(), *id);
    return ids;
  };
}

int32_t FirstToken(const v1::Manifest& manifest, const v1::ManifestSample& sample) {
  const v1::ManifestGroup& group = manifest.groups(static_cast<int>(sample.group()));
  return group.prefix_size() > 0 ? group.prefix(0) : sample.suffix(0);
}

// What every result shows: base models get no BOS (but those of Gemma do), chat templates often
// print one.
absl::Status DescribeFirstToken(const hf::Tokenizer& tokenizer, v1::Manifest* manifest) {
  const std::vector<int32_t> first = {FirstToken(*manifest, manifest->samples(0))};
  HC_ASSIGN_OR_RETURN(*manifest->mutable_first_token(),
                      tokenizer.Decode(first, /*skip_special=*/false));
  bool all_bos = tokenizer.bos_id().has_value();
  for (const v1::ManifestSample& sample : manifest->samples()) {
    all_bos = all_bos && FirstToken(*manifest, sample) == *tokenizer.bos_id();
  }
  manifest->set_first_token_is_bos(all_bos);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Prepare(const v1::Workload& workload, const PrepareInputs& inputs,
                                    const PrepareHooks& hooks) {
  HC_ASSIGN_OR_RETURN(const std::string directory, inputs.model_directory(workload.model()));
  HC_ASSIGN_OR_RETURN(const catalog::ModelConfig model, catalog::ReadModelConfig(directory));
  HC_ASSIGN_OR_RETURN(const hf::Tokenizer tokenizer, hf::Tokenizer::Load(directory));
  HC_ASSIGN_OR_RETURN(const std::string tokenizer_bytes,
                      ReadFile(directory + "/tokenizer.json", kLargestTokenizer));
  HC_ASSIGN_OR_RETURN(const Rendered rendered, Render(workload, inputs, directory));

  ManifestOptions options;
  options.group_by_task = rendered.group_by_task;
  options.max_tokens = model.max_position_embeddings;
  if (rendered.generation.has_value()) options.new_tokens = rendered.generation->max_new_tokens();
  options.rolling_prefix = tokenizer.bos_id().has_value() ? tokenizer.bos_id() : tokenizer.eos_id();
  options.threads = inputs.threads;
  options.progress = hooks.progress;
  options.cancel = hooks.cancel;
  HC_ASSIGN_OR_RETURN(const Encoder encode, MakeEncoder(workload, model, tokenizer));
  HC_ASSIGN_OR_RETURN(v1::Manifest manifest, BuildManifest(rendered.documents, encode, options));
  manifest.set_task(rendered.task);
  manifest.set_output_type(rendered.output_type);
  manifest.set_model(workload.model());
  manifest.set_tokenizer_digest(Sha256Hex(tokenizer_bytes));
  for (const std::string& metric : rendered.metrics) manifest.add_metrics(metric);
  if (rendered.generation.has_value()) {
    v1::Generation* generation = manifest.mutable_generation();
    *generation = *rendered.generation;
    for (const int32_t id : tokenizer.end_ids()) generation->add_stop_tokens(id);
    for (const tasks::AnswerMetric& metric : rendered.answer_metrics) {
      *manifest.add_answer_metrics() = ToProto(metric);
    }
  }
  HC_RETURN_IF_ERROR(DescribeFirstToken(tokenizer, &manifest));
  return format::Frame(format::FrameKind::kManifest, manifest);
}

}  // namespace headcount::eval
