// See rule_expression.h.

#include "server/plan/rule_expression.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::plan {
namespace {

using Op = ExpressionStep::Op;
using Rules = google::protobuf::RepeatedPtrField<v1::Rule>;

constexpr size_t kMaxLength = 1000;
constexpr size_t kMaxNameLength = 40;
constexpr int kMaxDepth = 64;

bool IsNamePart(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { Next(); }

  absl::StatusOr<std::vector<ExpressionStep>> Run() {
    HC_RETURN_IF_ERROR(Expression());
    if (!token_.empty()) return Unexpected("'and', 'or' or the end");
    return std::move(steps_);
  }

 private:
  // Reads a word, a single other character, or nothing at the end.
  void Next() {
    at_ += token_.size();
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    size_t end = at_;
    while (end < text_.size() && IsNamePart(text_[end])) ++end;
    if (end == at_ && end < text_.size()) ++end;
    token_ = text_.substr(at_, end - at_);
  }

  bool Take(std::string_view token) {
    if (token_ != token) return false;
    Next();
    return true;
  }

  absl::Status Unexpected(std::string_view wanted) const {
    const std::string found =
        token_.empty() ? "the end" : absl::StrCat("'", std::string(token_), "'");
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", std::string(wanted), ", found ", found, " at position ", at_));
  }

  absl::Status Expression() {
    if (++depth_ > kMaxDepth) return Unexpected("fewer parentheses inside each other");
    HC_RETURN_IF_ERROR(Term());
    while (token_ == "or") {
      const size_t position = at_;
      Next();
      HC_RETURN_IF_ERROR(Term());
      steps_.push_back({Op::kOr, "", position});
    }
    --depth_;
    return absl::OkStatus();
  }

  absl::Status Term() {
    HC_RETURN_IF_ERROR(Factor());
    while (token_ == "and") {
      const size_t position = at_;
      Next();
      const Op op = Take("not") ? Op::kAndNot : Op::kAnd;
      HC_RETURN_IF_ERROR(Factor());
      steps_.push_back({op, "", position});
    }
    return absl::OkStatus();
  }

  absl::Status Factor() {
    if (Take("(")) {
      HC_RETURN_IF_ERROR(Expression());
      return Take(")") ? absl::OkStatus() : Unexpected("')'");
    }
    if (token_ == "not") return Unexpected("a rule's name ('not' may only follow 'and')");
    if (!IsRuleName(token_)) return Unexpected("a rule's name");
    steps_.push_back({Op::kName, std::string(token_), at_});
    Next();
    return absl::OkStatus();
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string_view token_;
  int depth_ = 0;
  std::vector<ExpressionStep> steps_;
};

// Walks from rule to rule along the names, depth first.
class References {
 public:
  References(const Rules& rules, std::string path) : rules_(rules), path_(std::move(path)) {}

  absl::Status Check() {
    for (int i = 0; i < rules_.size(); ++i) {
      const std::string& name = rules_[i].name();
      if (name.empty() || by_name_.emplace(name, i).second) continue;
      return InvalidField(absl::StrCat(At(i), ".name"), name,
                          absl::StrCat("is the name of rule ", by_name_[name], " already"));
    }
    states_.resize(static_cast<size_t>(rules_.size()));
    for (int i = 0; i < rules_.size(); ++i) HC_RETURN_IF_ERROR(Visit(i));
    return absl::OkStatus();
  }

 private:
  struct State {
    enum { kNew, kOpen, kDone } visited = kNew;
    int parts = 1;
  };

  std::string At(int rule) const { return absl::StrCat(path_, "[", rule, "]"); }

  // The field of a rule that names others.
  std::string FieldOf(int rule) const {
    return At(rule) +
           (rules_[rule].has_random_in_layer() ? ".random_in_layer.rule" : ".expression");
  }

  absl::Status Visit(int rule) {
    State& state = states_[static_cast<size_t>(rule)];
    if (state.visited == State::kDone) return absl::OkStatus();
    state.visited = State::kOpen;
    const std::vector<std::string> names = NamesIn(rules_[rule]);
    int parts = 0;
    for (const std::string& name : names) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) {
        return InvalidField(FieldOf(rule), name, "is not the name of a rule of this job");
      }
      if (rules_[found->second].has_shuffled()) {
        return InvalidField(FieldOf(rule), name,
                            "is a shuffled rule: its masks belong to samples and cannot be a part");
      }
      if (states_[static_cast<size_t>(found->second)].visited == State::kOpen) {
        return InvalidField(FieldOf(rule), name,
                            "leads back to this rule: a rule cannot be made of itself");
      }
      HC_RETURN_IF_ERROR(Visit(found->second));
      parts += states_[static_cast<size_t>(found->second)].parts;
      if (parts > kMostParts) {
        return InvalidField(FieldOf(rule), absl::StrCat(parts, " parts"),
                            absl::StrCat("must be made of at most ", kMostParts, " rules"));
      }
    }
    state.parts = names.empty() ? 1 : parts + (rules_[rule].has_random_in_layer() ? 1 : 0);
    state.visited = State::kDone;
    return absl::OkStatus();
  }

  const Rules& rules_;
  const std::string path_;
  std::map<std::string, int> by_name_;
  std::vector<State> states_;
};

v1::CombineStep::Op ToProto(Op op) {
  switch (op) {
    case Op::kAnd:
      return v1::CombineStep::AND;
    case Op::kOr:
      return v1::CombineStep::OR;
    case Op::kAndNot:
      return v1::CombineStep::AND_NOT;
    case Op::kName:
      break;
  }
  return v1::CombineStep::PART;
}

class Resolver {
 public:
  Resolver(const Rules& rules, std::vector<v1::ResolvedRule>& resolved)
      : rules_(rules), resolved_(resolved) {
    for (int i = 0; i < rules_.size(); ++i) {
      if (!rules_[i].name().empty()) by_name_[rules_[i].name()] = i;
    }
  }

  void Run() {
    for (int i = 0; i < rules_.size(); ++i) Resolve(i);
  }

 private:
  const v1::ResolvedRule& Resolve(int rule) {
    v1::ResolvedRule& out = resolved_[static_cast<size_t>(rule)];
    if (out.select_case() != v1::ResolvedRule::SELECT_NOT_SET) return out;
    const v1::Rule& from = rules_[rule];
    v1::CombinedRule combined;
    if (from.has_random_in_layer()) {
      Append(Resolve(by_name_.at(from.random_in_layer().rule())), &combined);
      v1::CombineStep* step = combined.add_steps();
      step->set_op(v1::CombineStep::RANDOM_IN_LAYER);
      step->set_seed(from.random_in_layer().seed());
      step->set_unit(from.unit());
    } else {
      const auto steps = ParseRuleExpression(from.expression());  // checked when it was created
      for (const ExpressionStep& step : *steps) {
        if (step.op == Op::kName) {
          Append(Resolve(by_name_.at(step.name)), &combined);
        } else {
          combined.add_steps()->set_op(ToProto(step.op));
        }
      }
    }
    *out.mutable_combined() = std::move(combined);
    return out;
  }

  // What leaves the mask of `rule` on the stack: the rule itself, or its own parts and steps.
  static void Append(const v1::ResolvedRule& rule, v1::CombinedRule* to) {
    if (!rule.has_combined()) {
      v1::CombineStep* step = to->add_steps();
      step->set_op(v1::CombineStep::PART);
      step->set_part(to->parts_size());
      v1::ResolvedRule* part = to->add_parts();
      *part = rule;
      part->clear_intervention();  // what its heads become is the combination's to say
      return;
    }
    const int first = to->parts_size();
    for (const v1::ResolvedRule& part : rule.combined().parts()) {
      *to->add_parts() = part;
      KeepLayers(rule, to->mutable_parts(to->parts_size() - 1));
    }
    for (const v1::CombineStep& step : rule.combined().steps()) {
      v1::CombineStep* added = to->add_steps();
      *added = step;
      if (step.op() == v1::CombineStep::PART) added->set_part(first + step.part());
    }
  }

  // Where a combination may not act, none of its parts does: that is the same.
  static void KeepLayers(const v1::ResolvedRule& whole, v1::ResolvedRule* part) {
    if (whole.layers().empty()) return;
    const std::set<int> allowed(whole.layers().begin(), whole.layers().end());
    if (part->layers().empty()) {
      *part->mutable_layers() = whole.layers();
      return;
    }
    google::protobuf::RepeatedField<int32_t> kept;
    for (int layer : part->layers()) {
      if (allowed.contains(layer)) kept.Add(layer);
    }
    *part->mutable_layers() = kept;
    if (kept.empty()) part->set_none(true);  // no layers would mean all
  }

  const Rules& rules_;
  std::vector<v1::ResolvedRule>& resolved_;
  std::map<std::string, int> by_name_;
};

}  // namespace

absl::StatusOr<std::vector<ExpressionStep>> ParseRuleExpression(std::string_view text) {
  if (text.size() > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", text.size(), " characters, at most ", kMaxLength, " are allowed"));
  }
  return Parser(text).Run();
}

bool IsRuleName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) return false;
  if (name == "and" || name == "or" || name == "not") return false;
  for (char c : name) {
    if (!IsNamePart(c)) return false;
  }
  return name[0] >= 'a' && name[0] <= 'z';
}

std::vector<std::string> NamesIn(const v1::Rule& rule) {
  if (rule.has_random_in_layer()) return {rule.random_in_layer().rule()};
  std::vector<std::string> names;
  if (rule.select_case() != v1::Rule::kExpression) return names;
  const auto steps = ParseRuleExpression(rule.expression());
  if (!steps.ok()) return names;
  for (const ExpressionStep& step : *steps) {
    if (step.op == Op::kName) names.push_back(step.name);
  }
  return names;
}

absl::Status CheckReferences(const Rules& rules, const std::string& path) {
  return References(rules, path).Check();
}

void ResolveReferences(const Rules& rules, std::vector<v1::ResolvedRule>* resolved) {
  Resolver(rules, *resolved).Run();
}

}  // namespace headcount::plan
