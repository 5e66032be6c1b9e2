// Answers taken out of generated texts: lm-evaluation-harness' own decisions on GSM8K (shared
// data), and the filters and rules that GSM8K does not use.

#include "common/tasks/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/tasks/task_definition.h"
#include "nlohmann/json.hpp"
#include "tests/worker/eval/shared_data.h"

namespace headcount::tasks {
namespace {

using ::testing::HasSubstr;
using Kind = AnswerFilter::Kind;

Answer Judge(const AnswerMetric& metric, const std::string& text, const std::string& gold) {
  const auto judge = AnswerJudge::Make(metric);
  EXPECT_TRUE(judge.ok()) << judge.status();
  const auto answer = judge->Judge(text, gold);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.value_or(Answer{});
}

AnswerMetric WithFilter(AnswerFilter filter) {
  AnswerMetric metric;
  metric.filters.push_back(std::move(filter));
  return metric;
}

TEST(Gsm8k, IsJudgedAsTheHarnessJudgesIt) {
  const std::string path = SharedPath("data/lm_eval/scoring.json");
  HC_SKIP_UNLESS_EXISTS(path);
  const TaskSet set = LoadTaskDefinitions({"tasks"});
  ASSERT_TRUE(set.tasks.contains("gsm8k"));
  const std::vector<AnswerMetric>& metrics = set.tasks.at("gsm8k").answer_metrics;
  ASSERT_EQ(metrics.size(), 2u);
  const auto scoring = nlohmann::json::parse(*ReadFile(path));
  int compared = 0;
  for (const char* name : {"gsm8k", "gsm8k_comma_gold"}) {
    const auto& group = scoring[name];
    for (const auto& c : group["cases"]) {
      for (const AnswerMetric& metric : metrics) {
        const std::string filter = metric.name.substr(std::string("exact_match,").size());
        const Answer answer = Judge(metric, c["response"], group["doc"]["answer"]);
        EXPECT_EQ(answer.text, c[filter]["filtered"].get<std::string>())
            << filter << ": " << c["response"];
        EXPECT_EQ(answer.correct, c[filter]["exact_match"].get<double>() == 1.0)
            << filter << ": " << c["response"];
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 46);
}

// Without the shared data: the same rules on texts of our own, judged by the same Python.
TEST(Gsm8k, TakesTheFirstMarkedOrTheLastNumber) {
  const std::vector<AnswerMetric> metrics =
      LoadTaskDefinitions({"tasks"}).tasks.at("gsm8k").answer_metrics;
  const std::string gold = "2 and 3 make 5.\n#### 5";
  EXPECT_EQ(Judge(metrics[0], "so #### 5 or #### 6", gold).text, "5");
  EXPECT_TRUE(Judge(metrics[0], "so #### 5 or #### 6", gold).correct);
  EXPECT_EQ(Judge(metrics[1], "so #### 5 or #### 6", gold).text, "6");
  EXPECT_EQ(Judge(metrics[0], "it is 5", gold).text, "[invalid]");
  EXPECT_TRUE(Judge(metrics[1], "it is $5.", gold).correct);
  EXPECT_EQ(Judge(metrics[1], "it is 5...", gold).text, "5...");
  EXPECT_FALSE(Judge(metrics[1], "", gold).correct);
}

TEST(AnswerJudge, KnowsTheHarnessFilters) {
  EXPECT_EQ(Judge(WithFilter({.kind = Kind::kLowercase}), "ÀB", "").text, "àb");
  EXPECT_EQ(Judge(WithFilter({.kind = Kind::kUppercase}), "straße", "").text, "STRASSE");
  EXPECT_EQ(Judge(WithFilter({.kind = Kind::kRemoveWhitespace}), "\x1c \n a b ", "").text, "a b ");
  const AnswerFilter pairs{.pattern = "(a)?(b)?(c)", .group_select = 1, .fallback = "none"};
  EXPECT_EQ(Judge(WithFilter(pairs), "abc bc", "").text, "b");
  EXPECT_EQ(Judge(WithFilter(pairs), "c", "").text, "none");  // there is no second match
  EXPECT_EQ(
      Judge(WithFilter({.pattern = "(?<=is )\\S+\\s", .group_select = -1}), "is a is b ", "").text,
      "b");
  AnswerMetric two = WithFilter({.pattern = "(x)|(y)|z"});
  EXPECT_EQ(Judge(two, "z", "").text, "[invalid]");  // a match whose groups are all empty
  two.filters.push_back({.kind = Kind::kUppercase});
  EXPECT_EQ(Judge(two, "xy", "").text, "X");
}

TEST(AnswerJudge, IgnoresWhatTheMetricSays) {
  AnswerMetric metric;
  EXPECT_FALSE(Judge(metric, "Yes", "yes").correct);
  metric.ignore_case = true;
  EXPECT_TRUE(Judge(metric, "Yes", "yES").correct);
  EXPECT_FALSE(Judge(metric, "yes!", "yes").correct);
  metric.ignore_punctuation = true;
  EXPECT_TRUE(Judge(metric, "\"y_es!\"", "yes").correct);
  EXPECT_FALSE(Judge(metric, "yes1", "yes").correct);
  metric.ignore_numbers = true;
  EXPECT_TRUE(Judge(metric, "yes1", "2yes").correct);
  metric.regexes_to_ignore = {"b+", "^a"};
  EXPECT_TRUE(Judge(metric, "bbax", "x").correct);  // in this order
}

TEST(AnswerJudge, RefusesWhatDoesNotParseAndGivesUpOnWhatNeverEnds) {
  const absl::Status bad = AnswerJudge::Make(WithFilter({.pattern = "(a"})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(bad));
  EXPECT_THAT(std::string(bad.message()), HasSubstr("\"(a\""));
  AnswerMetric endless = WithFilter({.pattern = "(x+x+)+(?=y)z"});
  const std::string text(60, 'x');
  EXPECT_EQ(Judge(endless, text, "").text, "[invalid]");  // within its bound nothing matched
  endless = {};
  endless.regexes_to_ignore = {"(x+x+)+(?=y)z"};
  EXPECT_TRUE(Judge(endless, text, text).correct);
}

}  // namespace
}  // namespace headcount::tasks
