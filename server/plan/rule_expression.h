// Rule algebra: "a and b", "a or b", "a and not b" over the named rules of a job, parsed once, when
// the job is created or planned. What rules are made of (combinations of others, or as many heads
// as another) is put together here too, so that a worker gets parts and steps and looks nothing up.
//
// Grammar, `and` before `or`, from left to right:
//   expression := term ("or" term)*
//   term := factor ("and" ["not"] factor)*
//   factor := name | "(" expression ")"
// A `not` alone would mean all heads that are active, which no rule can want; it follows `and`.
//
// Pure functions. Errors: INVALID_ARGUMENT with the position (from 0) and what was found there.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"
#include "headcount/v1/worker_service.pb.h"

namespace headcount::plan {

// One step of a postfix program.
struct ExpressionStep {
  enum class Op { kName, kAnd, kOr, kAndNot };
  Op op = Op::kName;
  std::string name;  // kName
  size_t position = 0;
};

// At most 1,000 characters.
absl::StatusOr<std::vector<ExpressionStep>> ParseRuleExpression(std::string_view text);

// 1 to 40 of [a-z0-9_], beginning with a letter, and none of the words and, or, not.
bool IsRuleName(std::string_view name);

// Names of the rules that `rule` is made of, directly; none for a rule that selects by itself.
// `rule` has passed validation.
std::vector<std::string> NamesIn(const v1::Rule& rule);

// Names are unique, every name that a rule refers to is there and of no shuffled rule, none is made
// of itself, and no rule is made of more than kMostParts others. `path` is that of the list of
// rules.
inline constexpr int kMostParts = 32;
absl::Status CheckReferences(const google::protobuf::RepeatedPtrField<v1::Rule>& rules,
                             const std::string& path);

// Makes rules that are made of others whole: `resolved[i]` belongs to rules[i] and lacks its
// selection where that names others. Those get the others as parts, in the order of the steps.
// References have passed CheckReferences.
void ResolveReferences(const google::protobuf::RepeatedPtrField<v1::Rule>& rules,
                       std::vector<v1::ResolvedRule>* resolved);

}  // namespace headcount::plan
