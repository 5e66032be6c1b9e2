// The parts that ValidateJob is put together from; used by server/plan alone. `path` is the field's
// path below the job, as errors name it. See validate.h for the error codes. Pure but for the
// context's look-ups.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/catalog/scores.h"
#include "headcount/v1/spec.pb.h"
#include "server/plan/rule_list.h"
#include "server/plan/user_scores.h"
#include "server/plan/validate.h"

namespace headcount::plan {

// Limits that are part of the contract, not of the configuration.
inline constexpr int kMaxFewshot = 100;
inline constexpr int kMaxSystemInstructionBytes = 64 << 10;
inline constexpr int kMaxInlineRequests = 100'000;
inline constexpr int kMaxInlineChoices = 32;
inline constexpr int kMaxFractions = 100;

struct ModelShape {
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  bool generates = false;         // the workload's task continues its prompts
  bool reads_its_answer = false;  // tasks::ReadsItsAnswer: masks must not depend on the input

  // Of a layer, what a rule of this unit decides about.
  int units(v1::Unit unit) const { return unit == v1::UNIT_KV_GROUP ? kv_heads : heads; }
};

// `answers`: accuracy is measured, so every document needs choices and a right one.
absl::StatusOr<ModelShape> CheckWorkload(const v1::Workload& workload, const std::string& path,
                                         bool answers, const ValidationContext& context);

absl::Status CheckLayers(const v1::LayerSelection& layers, const std::string& path,
                         const ModelShape& model);
absl::Status CheckIntervention(const v1::Intervention& intervention, const std::string& path);
absl::Status CheckUnit(v1::Unit unit, const std::string& path);
// `scored`: a score decides, so that there is something to take the mean of.
absl::Status CheckGroupScore(v1::GroupScore group_score, v1::Unit unit, bool scored,
                             const std::string& path);
absl::Status CheckDecideOn(v1::DecideOn decide_on, const std::string& path);
absl::Status CheckMaskUpdate(v1::MaskUpdate update, const std::string& path,
                             const ModelShape& model);
absl::Status CheckTokens(const v1::Tokens& tokens, const std::string& path);
// At least one, each at most once.
absl::Status CheckScores(const google::protobuf::RepeatedPtrField<std::string>& scores,
                         const std::string& path, const UserScores& known = UserScores());
// Ascending fractions that may start with 0, of which those above 0 are run: how many, the default
// where none is named.
absl::StatusOr<int> CheckFractions(const google::protobuf::RepeatedField<double>& fractions,
                                   const std::string& path);
// Refuses what chooses heads by the input, where the input holds the answer.
absl::Status OnlineRule(const std::string& path);
// Finite and in [0, 1].
absl::Status CheckShare(double share, const std::string& path);

// A score job that is named: exists, keeps scores, is of `model`, has succeeded.
absl::Status CheckNamedScoreJob(const std::string& name, const std::string& path,
                                const std::string& model, const ValidationContext& context);

absl::Status CheckSweepJob(const v1::SweepSpec& spec, const ValidationContext& context);

// All rules of a job, each score job looked up once; none is fine.
absl::Status CheckRules(const RuleList& list, const std::string& model, const ModelShape& shape,
                        const ValidationContext& context);

}  // namespace headcount::plan
