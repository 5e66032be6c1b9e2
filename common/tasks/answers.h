// What a generated text answers, and whether it is right, as lm-evaluation-harness decides it:
// filters take the answer out of the text, exact_match compares it with the gold text. A task has
// one metric for each of its filters, named as the harness names them: "exact_match,strict-match".
//
// worker/eval puts a task's metrics into its manifest; server/results judges with them. Immutable:
// any number of threads may use one. A regular expression that backtracks too much on a text has no
// match in it. Errors: INVALID_ARGUMENT for one that does not parse, or text that is not UTF-8.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hf/regex.h"

namespace headcount::tasks {

// One step of a filter. Each text has one response, so choosing the first is no step.
struct AnswerFilter {
  enum class Kind { kRegex, kLowercase, kUppercase, kRemoveWhitespace };
  Kind kind = Kind::kRegex;
  // kRegex: of all matches the `group_select`-th (negative: from the end), of its groups the first
  // that is not empty, stripped; `fallback` where nothing matches.
  std::string pattern;
  int group_select = 0;
  std::string fallback = "[invalid]";
};

struct AnswerMetric {
  std::string name;
  std::vector<AnswerFilter> filters;
  // exact_match: what is done to answer and gold, in this order, before they are compared.
  std::vector<std::string> regexes_to_ignore;
  bool ignore_case = false;
  bool ignore_punctuation = false;
  bool ignore_numbers = false;
};

struct Answer {
  std::string text;
  bool correct = false;
};

class AnswerJudge {
 public:
  static absl::StatusOr<AnswerJudge> Make(const AnswerMetric& metric);

  absl::StatusOr<Answer> Judge(std::string_view response, std::string_view gold) const;

 private:
  struct Step {
    AnswerFilter filter;
    std::optional<hf::Regex> regex;  // of a kRegex
  };

  AnswerJudge() = default;
  absl::StatusOr<std::string> Apply(const Step& step, std::string text) const;
  absl::StatusOr<std::string> Normalise(std::string text) const;

  AnswerMetric metric_;
  std::vector<Step> steps_;
  std::vector<hf::Regex> ignored_;
};

}  // namespace headcount::tasks
