// The keys that result_reuse knows rows by. Internal to server/queue; pure functions.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headcount/v1/job.pb.h"
#include "headcount/v1/storage.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/store/job_store.h"

namespace headcount::queue {

// What is the same for all rows of a stage. `task_digest` is of the task's definition; empty for
// inline requests.
std::string StageKey(const v1::Job& job, store::Stage stage, const std::string& task_digest);

// The samples of a range: their ids, tokens, targets, documents.
std::string SamplesKey(const v1::Manifest& manifest, const v1::UnitRange& range);

// One rule; nullopt for a kind of rule that means something only beside the others of its job.
std::optional<std::string> RuleKey(const v1::ResolvedRule& rule);

// Of the rows of a unit: one a rule, or one for a score unit. Empty where they have none.
std::vector<std::string> RowKeys(const std::string& stage_key, const std::string& samples_key,
                                 const v1::StagePlan& plan, const v1::UnitRange& range);

}  // namespace headcount::queue
