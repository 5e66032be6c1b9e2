// See answers.h.

#include "common/tasks/answers.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::tasks {
namespace {

absl::StatusOr<hf::Regex> ParseRegex(const std::string& pattern) {
  auto regex = hf::Regex::Parse(pattern);
  if (!regex.ok()) return Annotate(regex.status(), absl::StrCat("\"", pattern, "\""));
  return regex;
}

void Erase(std::string_view characters, std::string* text) {
  std::erase_if(*text,
                [characters](char c) { return characters.find(c) != std::string_view::npos; });
}

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";  // Python's
constexpr std::string_view kDigits = "0123456789";

}  // namespace

absl::StatusOr<AnswerJudge> AnswerJudge::Make(const AnswerMetric& metric) {
  AnswerJudge judge;
  judge.metric_ = metric;
  for (const AnswerFilter& filter : metric.filters) {
    Step step{filter, std::nullopt};
    if (filter.kind == AnswerFilter::Kind::kRegex) {
      HC_ASSIGN_OR_RETURN(step.regex, ParseRegex(filter.pattern));
    }
    judge.steps_.push_back(std::move(step));
  }
  for (const std::string& pattern : metric.regexes_to_ignore) {
    HC_ASSIGN_OR_RETURN(hf::Regex regex, ParseRegex(pattern));
    judge.ignored_.push_back(std::move(regex));
  }
  return judge;
}

absl::StatusOr<Answer> AnswerJudge::Judge(std::string_view response, std::string_view gold) const {
  Answer answer;
  answer.text = std::string(response);
  for (const Step& step : steps_) {
    HC_ASSIGN_OR_RETURN(answer.text, Apply(step, std::move(answer.text)));
  }
  HC_ASSIGN_OR_RETURN(const std::string given, Normalise(answer.text));
  HC_ASSIGN_OR_RETURN(const std::string right, Normalise(std::string(gold)));
  answer.correct = given == right;
  return answer;
}

absl::StatusOr<std::string> AnswerJudge::Apply(const Step& step, std::string text) const {
  switch (step.filter.kind) {
    case AnswerFilter::Kind::kLowercase:
      return hf::PythonLower(text);
    case AnswerFilter::Kind::kUppercase:
      return hf::PythonUpper(text);
    case AnswerFilter::Kind::kRemoveWhitespace:
      return hf::PythonLeftStrip(text);
    case AnswerFilter::Kind::kRegex:
      break;
  }
  const auto found = step.regex->FindAll(text);
  if (absl::IsResourceExhausted(found.status())) return step.filter.fallback;
  HC_RETURN_IF_ERROR(found.status());
  const auto& matches = *found;
  const int count = static_cast<int>(matches.size());
  const int place =
      step.filter.group_select < 0 ? count + step.filter.group_select : step.filter.group_select;
  // Where the harness would raise an error, because there are fewer matches, nothing matched.
  if (place < 0 || place >= count) return step.filter.fallback;
  const std::vector<std::string>& groups = matches[static_cast<size_t>(place)];
  if (groups.size() == 1) return hf::PythonStrip(groups[0]);
  const auto filled = std::find_if(groups.begin(), groups.end(),
                                   [](const std::string& group) { return !group.empty(); });
  if (filled == groups.end()) return step.filter.fallback;
  return hf::PythonStrip(*filled);
}

absl::StatusOr<std::string> AnswerJudge::Normalise(std::string text) const {
  for (const hf::Regex& regex : ignored_) {
    auto without = regex.Remove(text);
    if (absl::IsResourceExhausted(without.status())) continue;
    HC_RETURN_IF_ERROR(without.status());
    text = *std::move(without);
  }
  if (metric_.ignore_case) {
    HC_ASSIGN_OR_RETURN(text, hf::PythonLower(text));
  }
  if (metric_.ignore_punctuation) Erase(kPunctuation, &text);
  if (metric_.ignore_numbers) Erase(kDigits, &text);
  return text;
}

}  // namespace headcount::tasks
