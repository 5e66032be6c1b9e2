// See prepare.h.

#include "worker/eval/prepare.h"

#include <memory>
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
};

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
  if (source.bos() != v1::BOS_UNSPECIFIED && source.bos() != v1::BOS_HARNESS) {
    return UnimplementedField("workload.task.bos");
  }
  if (!source.split().empty()) return UnimplementedField("workload.task.split");
  const tasks::TaskSet tasks = tasks::LoadTaskDefinitions(inputs.task_folders);
  const auto task = tasks.tasks.find(source.task());
  if (task == tasks.tasks.end()) {
    return WithField(absl::NotFoundError(absl::StrCat(
                         "workload.task.task: this worker has no task \"", source.task(), "\"")),
                     "workload.task.task");
  }
  HC_ASSIGN_OR_RETURN(const std::string data, DataFolder(task->second, inputs.data));
  HC_ASSIGN_OR_RETURN(const RenderOptions options, ReadOptions(source, model_directory));
  rendered.task = task->first;
  rendered.metrics = task->second.metrics;
  rendered.group_by_task = SharesPrefix(task->second, options);
  HC_ASSIGN_OR_RETURN(rendered.documents, RenderTask(task->second, data, options));
  return rendered;
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
  options.threads = inputs.threads;
  options.progress = hooks.progress;
  options.cancel = hooks.cancel;
  // Inline requests are tokenised as they stand.
  const bool add_special = workload.has_task() && model.family->harness_bos;
  HC_ASSIGN_OR_RETURN(
      v1::Manifest manifest,
      BuildManifest(
          rendered.documents,
          [&](std::string_view text) { return tokenizer.Encode(text, add_special); }, options));
  manifest.set_task(rendered.task);
  manifest.set_model(workload.model());
  manifest.set_tokenizer_digest(Sha256Hex(tokenizer_bytes));
  for (const std::string& metric : rendered.metrics) manifest.add_metrics(metric);
  HC_RETURN_IF_ERROR(DescribeFirstToken(tokenizer, &manifest));
  return format::Frame(format::FrameKind::kManifest, manifest);
}

}  // namespace headcount::eval
