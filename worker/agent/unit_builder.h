// From what the server hands out (a unit's sample and rule ranges, resolved rules, token ids) to
// what the engine runs. Pure functions. Errors: INVALID_ARGUMENT naming the rule or sample that
// does not fit the model.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "headcount/v1/worker_service.pb.h"
#include "worker/agent/sample_source.h"
#include "worker/engine/engine.h"

namespace headcount::agent {

// An engine unit and the token ids it points at. Movable: the spans stay valid.
struct BuiltUnit {
  engine::Unit unit;
  std::shared_ptr<const SampleRange> samples;
  std::vector<std::vector<int32_t>> storage;
};

using SharedMeans = std::shared_ptr<const engine::HeadMeans>;

// Rows of a score unit: its samples under no rule, with measurements and head sums. Rows of an
// ablate unit: rule-major, (rule, sample). `rules` are those of the task, by their index.
//
// `record` says what is kept of an ablate unit's rows; first weights are those of its first rule
// alone, because they are large.
//
// A rule of masks that are known beforehand becomes an engine rule for each sample.
//
// Samples of several groups become one engine unit, so that small groups share batches: its prefix
// is what their prefixes have in common.
absl::StatusOr<BuiltUnit> BuildUnit(const v1::UnitRange& range,
                                    std::shared_ptr<const SampleRange> samples,
                                    std::span<const v1::ResolvedRule> rules,
                                    const catalog::ModelConfig& model,
                                    std::span<const SharedMeans> means = {},
                                    const v1::RowRecord& record = {});

// A rule that is the same for all samples. `means` are those of the task.
// The rule of that index among those of a task.
absl::StatusOr<const v1::ResolvedRule*> FindRule(std::span<const v1::ResolvedRule> rules,
                                                 int index);

absl::StatusOr<engine::Rule> BuildRule(const v1::ResolvedRule& rule,
                                       const catalog::ModelConfig& model,
                                       std::span<const SharedMeans> means = {});

// Head means as the engine takes them, once a task.
absl::StatusOr<std::vector<SharedMeans>> BuildMeans(
    const google::protobuf::RepeatedPtrField<v1::HeadMeans>& means);

}  // namespace headcount::agent
