// See answers.h.

#include "server/results/answers.h"

#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::results {
namespace {

tasks::AnswerFilter FromProto(const v1::AnswerFilter& filter) {
  using Kind = tasks::AnswerFilter::Kind;
  tasks::AnswerFilter out;
  switch (filter.kind()) {
    case v1::AnswerFilter::LOWERCASE:
      out.kind = Kind::kLowercase;
      break;
    case v1::AnswerFilter::UPPERCASE:
      out.kind = Kind::kUppercase;
      break;
    case v1::AnswerFilter::REMOVE_WHITESPACE:
      out.kind = Kind::kRemoveWhitespace;
      break;
    default:
      out.kind = Kind::kRegex;
      out.pattern = filter.pattern();
      out.group_select = filter.group_select();
      out.fallback = filter.fallback();
  }
  return out;
}

tasks::AnswerMetric FromProto(const v1::AnswerMetric& metric) {
  tasks::AnswerMetric out;
  out.name = metric.name();
  for (const v1::AnswerFilter& filter : metric.filters()) out.filters.push_back(FromProto(filter));
  out.regexes_to_ignore.assign(metric.regexes_to_ignore().begin(),
                               metric.regexes_to_ignore().end());
  out.ignore_case = metric.ignore_case();
  out.ignore_punctuation = metric.ignore_punctuation();
  out.ignore_numbers = metric.ignore_numbers();
  return out;
}

}  // namespace

absl::StatusOr<AnswerJudges> AnswerJudges::Make(const v1::Manifest& manifest) {
  AnswerJudges judges;
  for (const v1::AnswerMetric& metric : manifest.answer_metrics()) {
    auto judge = tasks::AnswerJudge::Make(FromProto(metric));
    if (!judge.ok()) return Annotate(judge.status(), "metric " + metric.name());
    judges.judges_.push_back(*std::move(judge));
  }
  return judges;
}

absl::StatusOr<std::vector<tasks::Answer>> AnswerJudges::Judge(const std::string& text,
                                                               const std::string& gold) const {
  std::vector<tasks::Answer> answers;
  for (const tasks::AnswerJudge& judge : judges_) {
    HC_ASSIGN_OR_RETURN(tasks::Answer answer, judge.Judge(text, gold));
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace headcount::results
