// A catalogue over a table, for tests of the planner and the queue.
//
// Models: "tiny" (2 layers x 3 query heads, no chat template), "chatty" (the same with one),
// "broken" (FAILED_PRECONDITION). Tasks: "pairs" (two choices, no few-shot split), "subjects"
// (subtasks algebra, botany and chess, 5-shot), "sums" (generates), "prose" (scores whole texts),
// "poolless" (the file of its examples is missing), "unread" (FAILED_PRECONDITION: no data folder).

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/job_catalog.h"

namespace headcount::plan {

class FakeCatalog final : public JobCatalog {
 public:
  static constexpr int kLayers = 2;
  static constexpr int kHeads = 3;
  static constexpr int kKvHeads = 1;
  static constexpr int kHeadDim = 4;
  static constexpr int kVocabulary = 100;
  static constexpr int kContext = 64;

  absl::StatusOr<ModelFacts> FindModel(const std::string& name) const override {
    if (name == "broken") {
      return WithReason(absl::FailedPreconditionError("hidden_size 10 is no multiple of 3 heads"),
                        "BAD_CONFIG");
    }
    if ((name != "tiny" && name != "chatty") || name == missing) {
      return WithReason(absl::NotFoundError("no model " + name), "MODEL_NOT_FOUND");
    }
    ModelFacts facts;
    facts.config.layers = kLayers;
    facts.config.heads = kHeads;
    facts.config.kv_heads = kKvHeads;
    facts.config.head_dim = kHeadDim;
    facts.config.vocab_size = kVocabulary;
    facts.config.max_position_embeddings = kContext;
    facts.has_chat_template = name == "chatty";
    facts.digest = "digest-of-" + name;
    facts.tokenizer_digest = tokenizer_digest;
    return facts;
  }

  absl::StatusOr<TaskFacts> FindTask(const std::string& name,
                                     const std::string& split) const override {
    auto task = std::make_shared<tasks::TaskDefinition>();
    task->task = name;
    task->digest = task_digest;
    TaskFacts facts;
    if (name == "subjects") {
      task->fewshot_split = "dev";
      task->num_fewshot = 5;
      facts.subtasks = {"algebra", "botany", "chess"};
    } else if (name == "sums") {
      task->output_type = tasks::OutputType::kGenerateUntil;
    } else if (name == "prose") {
      task->output_type = tasks::OutputType::kLoglikelihoodRolling;
    } else if (name == "poolless") {
      task->fewshot_split = "train";
      facts.missing_pool = "/rows/train.jsonl";
    } else if (name == "unread") {
      return WithReason(absl::FailedPreconditionError("data: unread has no folder"), "NO_DATA");
    } else if (name != "pairs") {
      return WithReason(absl::NotFoundError("no task " + name), "TASK_NOT_FOUND");
    }
    task->test_split = "test";
    task->splits = {{"test", "test.jsonl"}, {"train", "train.jsonl"}};
    HC_ASSIGN_OR_RETURN(*task, tasks::WithSplit(*task, split));
    facts.definition = std::move(task);
    return facts;
  }

  absl::StatusOr<std::string> DataDigest(const v1::TaskSource& source) const override {
    return data_digest + source.task();
  }

  std::string missing;  // a model whose folder is gone
  std::string tokenizer_digest = "tokenizer";
  std::string task_digest = "task";
  std::string data_digest = "data";
};

}  // namespace headcount::plan
