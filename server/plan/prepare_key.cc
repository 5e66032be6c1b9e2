// See prepare_key.h.

#include "server/plan/prepare_key.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/format/frame.h"
#include "common/format/serialize.h"

namespace headcount::plan {
namespace {

// Raised whenever rendering, tokenising or grouping changes a manifest's bytes.
constexpr int kPrepareVersion = 2;

v1::TaskSource Canonical(const v1::TaskSource& source, const tasks::TaskDefinition& task) {
  v1::TaskSource canonical = source;
  for (std::string& subtask : *canonical.mutable_subtasks()) {
    subtask = std::string(ShortSubtask(source.task(), subtask));
  }
  if (!source.has_num_fewshot()) canonical.set_num_fewshot(task.num_fewshot);
  if (source.chat() == v1::CHAT_FORMAT_UNSPECIFIED) canonical.set_chat(v1::CHAT_FORMAT_PLAIN);
  if (source.split() == task.test_split) canonical.clear_split();
  if (source.bos() == v1::BOS_UNSPECIFIED) canonical.set_bos(v1::BOS_HARNESS);
  return canonical;
}

}  // namespace

std::string_view ShortSubtask(std::string_view task, std::string_view subtask) {
  if (subtask.size() > task.size() + 1 && subtask.substr(0, task.size()) == task &&
      subtask[task.size()] == '_') {
    subtask.remove_prefix(task.size() + 1);
  }
  return subtask;
}

absl::StatusOr<std::string> PrepareKey(const v1::Workload& workload, const JobCatalog& catalog) {
  HC_ASSIGN_OR_RETURN(const ModelFacts model, catalog.FindModel(workload.model()));
  std::string key =
      absl::StrCat("prepare ", kPrepareVersion, " frame ", format::kFormatVersion, "\nmodel ",
                   workload.model(), " ", model.tokenizer_digest, " ", model.config.model_type, " ",
                   model.config.vocab_size, " ", model.config.max_position_embeddings, "\n");
  if (workload.has_task()) {
    HC_ASSIGN_OR_RETURN(const TaskFacts facts,
                        catalog.FindTask(workload.task().task(), workload.task().split()));
    const v1::TaskSource canonical = Canonical(workload.task(), *facts.definition);
    HC_ASSIGN_OR_RETURN(const std::string data, catalog.DataDigest(canonical));
    absl::StrAppend(&key, "task ", facts.definition->digest, " ", data, "\n",
                    format::SerializeDeterministically(canonical));
  } else {
    absl::StrAppend(&key, "requests\n", format::SerializeDeterministically(workload.requests()));
  }
  return Sha256Hex(key);
}

}  // namespace headcount::plan
