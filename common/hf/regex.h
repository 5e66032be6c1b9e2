// Regular expressions and string methods as Python has them: what lm-evaluation-harness' filters
// and metrics are written in. server/results judges generated answers with them (through
// common/tasks/answers). Immutable: any number of threads may use one. Backtracking is bounded.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct HcHfRegex;

namespace headcount::hf {

class Regex {
 public:
  // INVALID_ARGUMENT: a syntax error, or something that only Python's re knows.
  static absl::StatusOr<Regex> Parse(std::string_view pattern);

  // re.findall: every match from left to right. One string a group, "" where the group took no
  // part; the whole match where the expression has no group. RESOURCE_EXHAUSTED: too much
  // backtracking; INVALID_ARGUMENT: text that is not UTF-8.
  absl::StatusOr<std::vector<std::vector<std::string>>> FindAll(std::string_view text) const;

  // re.sub with "".
  absl::StatusOr<std::string> Remove(std::string_view text) const;

 private:
  struct Free {
    void operator()(HcHfRegex* regex) const;
  };
  explicit Regex(HcHfRegex* regex) : regex_(regex) {}

  std::unique_ptr<HcHfRegex, Free> regex_;
};

// str.lower, str.upper, str.strip and str.lstrip. INVALID_ARGUMENT: text that is not UTF-8.
absl::StatusOr<std::string> PythonLower(std::string_view text);
absl::StatusOr<std::string> PythonUpper(std::string_view text);
absl::StatusOr<std::string> PythonStrip(std::string_view text);
absl::StatusOr<std::string> PythonLeftStrip(std::string_view text);

}  // namespace headcount::hf
