// See task_prompts.h.

#include "tests/bench/task_prompts.h"

#include <vector>

#include "common/base/status_macros.h"
#include "common/format/frame.h"
#include "common/hf/tokenizer.h"
#include "headcount/v1/spec.pb.h"
#include "headcount/v1/storage.pb.h"
#include "worker/eval/prepare.h"

namespace headcount::bench {

using Json = nlohmann::json;

absl::StatusOr<Json> TaskPrompts(const std::string& model_folder, const Json& command) {
  v1::Workload workload;
  workload.set_model("bench");
  workload.set_dtype(v1::DTYPE_FLOAT32);
  v1::TaskSource& source = *workload.mutable_task();
  source.set_task(command.at("task").get<std::string>());
  if (command.contains("subtask")) source.add_subtasks(command["subtask"].get<std::string>());
  source.set_limit(command.at("documents"));
  source.set_num_fewshot(command.at("fewshot"));

  eval::PrepareInputs inputs;
  inputs.task_folders = {command.at("task_folder").get<std::string>()};
  inputs.data = {{source.task(), command.at("data").get<std::string>()}};
  inputs.model_directory = [&](const std::string&) { return model_folder; };
  HC_ASSIGN_OR_RETURN(const std::string bytes, eval::Prepare(workload, inputs, {}));
  v1::Manifest manifest;
  HC_RETURN_IF_ERROR(format::Unframe(format::FrameKind::kManifest, bytes, &manifest));

  Json prompts = Json::array();
  for (const v1::ManifestSample& sample : manifest.samples()) {
    const auto& prefix = manifest.groups(static_cast<int>(sample.group())).prefix();
    std::vector<int32_t> ids(prefix.begin(), prefix.end());
    ids.insert(ids.end(), sample.suffix().begin(), sample.suffix().end());
    prompts.push_back(ids);
  }
  const auto& targets = manifest.samples(0).targets();
  return Json{{"prompts", prompts},
              {"targets", std::vector<int32_t>(targets.begin(), targets.end())}};
}

absl::StatusOr<Json> Encode(const std::string& model_folder, const Json& command) {
  HC_ASSIGN_OR_RETURN(const hf::Tokenizer tokenizer, hf::Tokenizer::Load(model_folder));
  HC_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                      tokenizer.Encode(command.at("text").get<std::string>(), false));
  return Json{{"tokens", tokens}};
}

}  // namespace headcount::bench
