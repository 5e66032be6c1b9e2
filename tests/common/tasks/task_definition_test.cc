// Task files: what is read, and that every mistake is refused with file, key, value and what is
// allowed.

#include "common/tasks/task_definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace headcount::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

constexpr char kGood[] = R"(task: quiz
output_type: multiple_choice
dataset_path: somebody/quiz
test_split: test
fewshot_split: dev
fewshot_config: {sampler: first_n}
num_fewshot: 2
description: "About {{subtask}}.\n\n"
doc_to_text: "{{question.strip()}}\nAnswer:"
doc_to_choice: ["A", "B"]
doc_to_target: "{{answer}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
headcount:
  title: A quiz
  data: quiz
  format: csv
  columns: [question, A, B, answer]
  splits:
    test: "test/{subtask}_test.csv"
    dev: "dev/{subtask}_dev.csv"
  subtasks: {pattern: "test/{subtask}_test.csv"}
)";

std::string With(std::string from, const std::string& to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class TaskFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  fs::path root_;
};

TEST(TaskDefinition, ReadsEveryKey) {
  const auto task = ParseTaskDefinition(kGood, "/tasks/quiz.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->task, "quiz");
  EXPECT_EQ(task->title, "A quiz");
  EXPECT_EQ(task->data, "quiz");
  EXPECT_EQ(task->format, FileFormat::kCsv);
  EXPECT_THAT(task->columns, ElementsAre("question", "A", "B", "answer"));
  EXPECT_TRUE(task->discover_subtasks);
  EXPECT_EQ(task->test_split, "test");
  EXPECT_EQ(task->fewshot_split, "dev");
  EXPECT_EQ(task->num_fewshot, 2);
  EXPECT_EQ(task->description, "About {{subtask}}.\n\n");
  EXPECT_EQ(task->doc_to_text, "{{question.strip()}}\nAnswer:");
  EXPECT_THAT(task->doc_to_choice, ElementsAre("A", "B"));
  EXPECT_FALSE(task->doc_to_choice_is_list_template);
  EXPECT_EQ(task->target_delimiter, " ");
  EXPECT_EQ(task->fewshot_delimiter, "\n\n");
  EXPECT_THAT(task->metrics, ElementsAre("acc", "acc_norm"));
  EXPECT_EQ(task->folder, "/tasks");
  EXPECT_EQ(task->digest.size(), 64u);
}

TEST(TaskDefinition, DefaultsAreThoseOfTheHarness) {
  const auto task = ParseTaskDefinition(R"(task: t
validation_split: valid
doc_to_text: q
doc_to_choice: "{{ [sol1, sol2] }}"
doc_to_target: label
headcount: {data: rows, splits: {valid: valid.jsonl}}
)",
                                        "t.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->test_split, "valid");
  EXPECT_EQ(task->format, FileFormat::kJsonl);
  EXPECT_TRUE(task->doc_to_choice_is_list_template);
  EXPECT_EQ(task->description, "");
  EXPECT_EQ(task->num_fewshot, 0);
  EXPECT_THAT(task->metrics, ElementsAre("acc"));
  EXPECT_EQ(task->title, "t");
}

// lm-eval takes few-shot examples from fewshot_split, else from training_split, and draws one more
// where it takes the pool's name and the evaluated split's for equal; also where it has neither.
TEST(TaskDefinition, PoolIsTheFewShotSplitOrTheTrainingSplit) {
  const auto parse = [](const std::string& splits) {
    const auto task = ParseTaskDefinition(splits + R"(doc_to_text: q
task: t
doc_to_choice: options
doc_to_target: label
headcount: {data: rows, splits: {valid: v.jsonl, test: t.jsonl, train: r.jsonl}}
)",
                                          "t.yaml");
    EXPECT_TRUE(task.ok()) << task.status();
    return task.value_or(TaskDefinition{});
  };
  const auto piqa = parse("training_split: train\nvalidation_split: valid\n");
  EXPECT_EQ(piqa.fewshot_split, "train");
  EXPECT_EQ(piqa.test_split, "valid");
  EXPECT_TRUE(piqa.spare_example);
  EXPECT_EQ(piqa.sampler, Sampler::kDefault);
  EXPECT_THAT(piqa.doc_to_choice, ElementsAre("{{ options }}"));
  EXPECT_TRUE(piqa.doc_to_choice_is_list_template);

  const auto gsm8k = parse("training_split: train\ntest_split: test\nfewshot_split: train\n");
  EXPECT_EQ(gsm8k.fewshot_split, "train");
  EXPECT_FALSE(gsm8k.spare_example);
  EXPECT_TRUE(parse("test_split: test\nfewshot_split: test\n").spare_example);
  EXPECT_FALSE(parse("test_split: test\ntraining_split: train\n").spare_example);
  EXPECT_EQ(parse("test_split: test\ntraining_split: elsewhere\n").fewshot_split, "");
}

TEST(TaskDefinition, NamesFileKeyValueAndWhatIsAllowed) {
  struct Case {
    const char* from;
    const char* to;
    absl::StatusCode code;
    const char* key;
    const char* says;
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  const Case cases[] = {
      {"num_fewshot: 2", "num_fewshots: 2", invalid, "num_fewshots", "unknown key; allowed"},
      {"num_fewshot: 2", "num_fewshot: 101", invalid, "num_fewshot", "0 to 100"},
      {"num_fewshot: 2", "num_fewshot: -1", invalid, "num_fewshot", "0 to 100"},
      {"num_fewshot: 2", "num_fewshot: 2\nnum_fewshot: 3", invalid, "num_fewshot", "twice"},
      {"first_n}", "random}", unimplemented, "fewshot_config.sampler", "default, first_n"},
      {"fewshot_split: dev\n", "training_split: train\n", invalid, "num_fewshot",
       "0 without fewshot_split"},
      {"fewshot_split: dev", "fewshot_split: nowhere", invalid, "fewshot_split", "splits"},
      {"test_split: test", "test_split: nowhere", invalid, "test_split", "splits"},
      {"multiple_choice", "perplexity", unimplemented, "output_type", "multiple_choice"},
      {"multiple_choice", "generate_until", unimplemented, "doc_to_choice", "multiple_choice"},
      {"multiple_choice", "loglikelihood_rolling", invalid, "doc_to_text", "must be empty"},
      {"[\"A\", \"B\"]", "[\"A\", \"{{ B\"]", invalid, "doc_to_choice", "template"},
      {"{{question.strip()}}", "{% if %}", invalid, "doc_to_text", "syntax error"},
      {"metric: acc\n", "metric: brier\n", unimplemented, "metric_list.metric", "acc_norm"},
      {"aggregation: mean", "aggregation: median", unimplemented, "aggregation", "mean"},
      {"task: quiz", "task: ../quiz", invalid, "task", "../quiz"},
      {"task: quiz", "filter_list: []\ntask: quiz", unimplemented, "filter_list", "only"},
      {"doc_to_text: \"{{question.strip()}}\\nAnswer:\"", "doc_to_text: !function utils.text",
       invalid, "doc_to_text", "!function is refused"},
      {"[\"A\", \"B\"]", "[\"A\"]", invalid, "doc_to_choice", "2 to 32"},
      {"[\"A\", \"B\"]", "\"{{a}}{{b}}\"", invalid, "doc_to_choice", "one {{ expression }}"},
      {"[\"A\", \"B\"]", "\"a b\"", invalid, "doc_to_choice", "a column"},
      {"format: csv", "format: xlsx", invalid, "headcount.format", "csv, jsonl, parquet or text"},
      {"format: csv", "format: jsonl", invalid, "headcount.columns", "csv"},
      {"  data: quiz\n", "", invalid, "headcount.data", "required"},
      {"data: quiz", "data: /etc", invalid, "headcount.data", "a key of"},
      {"data: quiz", "data: ..", invalid, "headcount.data", "a key of"},
      {"test: \"test/{subtask}_test.csv", "test: \"../{subtask}.csv", invalid,
       "headcount.splits.test", "below"},
      {"test: \"test/{subtask}_test.csv", "test: \"test.csv", invalid, "headcount.splits.test",
       "{subtask}"},
      {"test: \"test/{subtask}_test.csv", "test: \"{subtask}/t.csv", invalid,
       "headcount.splits.test", "name"},
      {"{pattern: \"test/{subtask}_test.csv\"}", "[a/b]", invalid, "headcount.subtasks", "a/b"},
      {"{pattern: \"test/{subtask}_test.csv\"}", "[a, a]", invalid, "headcount.subtasks", "twice"},
      {"{pattern: \"test/{subtask}_test.csv\"}", "discover", invalid, "headcount.subtasks", "list"},
      {"{pattern: \"test", "{patern: \"test", invalid, "headcount.subtasks.patern", "pattern"},
      {"  subtasks: {pattern: \"test/{subtask}_test.csv\"}\n", "", invalid, "headcount.splits",
       "no headcount.subtasks"},
      {"  format: csv", "  extra: 1\n  format: csv", invalid, "headcount.extra", "unknown key"},
      {"task: quiz", "task: [", invalid, "quiz.yaml", "line"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.from) + " -> " + c.to);
    const auto task = ParseTaskDefinition(With(c.from, c.to), "quiz.yaml");
    ASSERT_FALSE(task.ok());
    EXPECT_EQ(task.status().code(), c.code) << task.status();
    const std::string message(task.status().message());
    EXPECT_THAT(message, HasSubstr("quiz.yaml"));
    EXPECT_THAT(message, HasSubstr(c.key));
    EXPECT_THAT(message, HasSubstr(c.says));
  }
}

TEST(TaskDefinition, ReadsTasksThatScoreTexts) {
  const std::string rolling = R"(task: prose
output_type: loglikelihood_rolling
test_split: test
doc_to_target: text
headcount: {data: prose, format: text, splits: {test: t.txt}}
)";
  const auto task = ParseTaskDefinition(rolling, "prose.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->output_type, OutputType::kLoglikelihoodRolling);
  EXPECT_TRUE(ReadsItsAnswer(task->output_type));
  EXPECT_EQ(OutputTypeName(task->output_type), "loglikelihood_rolling");
  EXPECT_EQ(task->format, FileFormat::kText);
  EXPECT_THAT(task->metrics, ElementsAre("word_perplexity", "byte_perplexity", "bits_per_byte"));

  const auto one = ParseTaskDefinition(R"(task: last
output_type: loglikelihood
test_split: test
doc_to_text: "{{before}}"
doc_to_target: " {{word}}"
metric_list: [{metric: acc}]
headcount: {data: last, splits: {test: t.jsonl}}
)",
                                       "last.yaml");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->output_type, OutputType::kLoglikelihood);
  EXPECT_THAT(one->metrics, ElementsAre("acc"));
  EXPECT_FALSE(ReadsItsAnswer(OutputType::kMultipleChoice));
}

constexpr char kGenerating[] = R"(task: sums
output_type: generate_until
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
headcount: {data: sums, splits: {test: t.jsonl}}
)";

TEST(TaskDefinition, ReadsHowTextsAreGeneratedAndJudged) {
  auto task = ParseTaskDefinition(kGenerating, "sums.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->output_type, OutputType::kGenerateUntil);
  EXPECT_THAT(task->until, ElementsAre("\n\n"));  // the few-shot delimiter
  EXPECT_EQ(task->max_new_tokens, 256);
  EXPECT_THAT(task->metrics, ElementsAre("exact_match,none"));
  task = ParseTaskDefinition(std::string(kGenerating) + R"yaml(
generation_kwargs: {until: ["Q:", "</s>"], max_gen_toks: 9, do_sample: false, temperature: 0.0}
filter_list:
  - name: last
    filter:
      - {function: regex, regex_pattern: "([0-9]+)", group_select: -1, fallback: "?"
}
      - {function: lowercase}
      - {function: take_first}
  - name: whole
    filter: [{function: remove_whitespace}]
metric_list:
  - {metric: exact_match, ignore_case: true, regexes_to_ignore: [",", "\\$"]}
)yaml",
                             "sums.yaml");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_THAT(task->until, ElementsAre("Q:", "</s>"));
  EXPECT_EQ(task->max_new_tokens, 9);
  EXPECT_THAT(task->metrics, ElementsAre("exact_match,last", "exact_match,whole"));
  const AnswerMetric& last = task->answer_metrics[0];
  ASSERT_EQ(last.filters.size(), 2u);
  EXPECT_EQ(last.filters[0].pattern, "([0-9]+)");
  EXPECT_EQ(last.filters[0].group_select, -1);
  EXPECT_EQ(last.filters[0].fallback, "?");
  EXPECT_EQ(last.filters[1].kind, AnswerFilter::Kind::kLowercase);
  EXPECT_THAT(last.regexes_to_ignore, ElementsAre(",", "\\$"));
  EXPECT_TRUE(last.ignore_case);
  EXPECT_FALSE(last.ignore_punctuation);
}

TEST(TaskDefinition, NamesWhatIsWrongWithAGeneratingTask) {
  const std::pair<const char*, const char*> cases[] = {
      {"generation_kwargs: {do_sample: true}", "do_sample"},
      {"generation_kwargs: {temperature: 0.7}", "temperature"},
      {"generation_kwargs: {max_gen_toks: 0}", "max_gen_toks: must be 1 to 8192"},
      {"generation_kwargs: {until: [\"\"]}", "until: must not hold an empty stop"},
      {"generation_kwargs: {top_k: 3}", "generation_kwargs.top_k: unknown key"},
      {"filter_list: []", "filter_list: must be a list of filters"},
      {"filter_list: [{filter: [{function: regex}]}]", "filter_list.name: is required"},
      {"filter_list: [{name: n, filter: [{function: majority_vote}]}]", "allowed: regex"},
      {"filter_list: [{name: n, filter: [{function: regex, regex_pattern: \"(\"}]}]",
       "filter_list: \"(\": regular expression"},
      {"filter_list: [{name: n, filter: [{function: !function x.y}]}]", "!function is refused"},
      {"metric_list: [{metric: bleu}]", "allowed: exact_match"},
      {"metric_list: [{metric: exact_match, regexes_to_ignore: [\"[\"]}]", "regular expression"},
  };
  for (const auto& [line, says] : cases) {
    const auto task = ParseTaskDefinition(std::string(kGenerating) + line + "\n", "sums.yaml");
    ASSERT_FALSE(task.ok()) << line;
    EXPECT_THAT(std::string(task.status().message()), HasSubstr(says)) << line;
    EXPECT_THAT(std::string(task.status().message()), HasSubstr("sums.yaml")) << line;
  }
}

TEST(TaskDefinition, ShippedTasksParse) {
  const TaskSet set = LoadTaskDefinitions({"tasks"});  // tests run in the repository's root
  for (const auto& [file, why] : set.problems) ADD_FAILURE() << file << ": " << why;
  for (const char* task :
       {"arc_challenge", "boolq", "everyday", "gsm8k", "hellaswag", "mmlu", "piqa", "winogrande"}) {
    EXPECT_TRUE(set.tasks.contains(task)) << task;
  }
}

TEST(TaskDefinition, TheExamplesOfTheGuideParse) {
  std::ifstream guide("docs/add-a-task.md");
  const std::string text{std::istreambuf_iterator<char>(guide), {}};
  const std::string opening = "```yaml\n";
  int examples = 0;
  for (size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
    at += opening.size();
    const auto task = ParseTaskDefinition(text.substr(at, text.find("```", at) - at), "guide.yaml");
    EXPECT_TRUE(task.ok()) << task.status();
    ++examples;
  }
  EXPECT_EQ(examples, 2);
}

TEST_F(TaskFolder, LaterFolderWinsAndABadFileHidesNothing) {
  Write("a/quiz.yaml", kGood);
  Write("a/bad.yaml", "task: bad\n");
  Write("a/twin.yaml", kGood);
  Write("a/notes.txt", "not a task");
  Write("b/quiz.yaml", With("A quiz", "Another quiz"));
  const TaskSet set = LoadTaskDefinitions(
      {(root_ / "a").string(), (root_ / "b").string(), (root_ / "none").string()});
  ASSERT_EQ(set.tasks.size(), 1u);
  EXPECT_EQ(set.tasks.at("quiz").title, "Another quiz");
  ASSERT_EQ(set.problems.size(), 3u);
  EXPECT_THAT(std::string(set.problems.at((root_ / "a/twin.yaml").string()).message()),
              HasSubstr("quiz.yaml too"));
  EXPECT_TRUE(absl::IsNotFound(set.problems.at((root_ / "none").string())));
}

TEST_F(TaskFolder, FindsDataAndSubtasks) {
  auto task = ParseTaskDefinition(kGood, (root_ / "quiz.yaml").string());
  ASSERT_TRUE(task.ok()) << task.status();
  const auto missing = DataFolder(*task, {});
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("data.quiz"));
  const std::string folder = (root_ / "rows").string();
  EXPECT_TRUE(absl::IsNotFound(DataFolder(*task, {{"quiz", folder}}).status()));

  Write("rows/test/zoology_test.csv", "");
  Write("rows/test/algebra_test.csv", "");
  Write("rows/test/_test.csv", "");
  Write("rows/test/readme.md", "");
  const auto found = DataFolder(*task, {{"quiz", folder}});
  ASSERT_TRUE(found.ok()) << found.status();
  const auto subtasks = ListSubtasks(*task, *found);
  ASSERT_TRUE(subtasks.ok()) << subtasks.status();
  EXPECT_THAT(*subtasks, ElementsAre("algebra", "zoology"));

  Write("data/quiz/rows.jsonl", "");
  EXPECT_EQ(*DataFolder(*task, {}), (root_ / "data/quiz").string());
  task->discover_subtasks = false;
  EXPECT_THAT(*ListSubtasks(*task, folder), IsEmpty());
  task->discover_subtasks = true;
  fs::remove_all(root_ / "rows/test");
  EXPECT_TRUE(absl::IsNotFound(ListSubtasks(*task, folder).status()));
}

}  // namespace
}  // namespace headcount::tasks
