// Rendering against what lm-evaluation-harness 0.4.5 itself built (prompt vectors of the shared
// data), and the cases that the vectors do not hold.

#include "worker/eval/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/files.h"
#include "nlohmann/json.hpp"
#include "tests/worker/eval/shared_data.h"

namespace headcount::eval {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Stands in for a chat template, as in the vectors: the messages themselves.
absl::StatusOr<std::string> MessagesAsJson(const std::vector<hf::ChatMessage>& messages) {
  json list = json::array();
  for (const auto& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  return list.dump();
}

tasks::TaskDefinition Shipped(const std::string& name) {
  tasks::TaskSet set = tasks::LoadTaskDefinitions({"tasks"});
  EXPECT_TRUE(set.tasks.contains(name)) << name;
  return set.tasks[name];
}

class PromptVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(PromptVectors, AreByteEqual) {
  const std::string path = SharedPath("data/lm_eval/prompts.json");
  HC_SKIP_UNLESS_EXISTS(path);
  const json sets = json::parse(*ReadFile(path));
  int compared = 0;
  for (const json& set : sets) {
    const std::string name = set["name"];
    const std::string task_name = GetParam();
    if (!name.starts_with(task_name + "_")) continue;
    SCOPED_TRACE(name);
    const json& settings = set["options"];
    tasks::TaskDefinition task = Shipped(task_name);
    if (task_name == "winogrande")
      task.splits["train"] = "train_m.jsonl";  // as the vectors' note says
    RenderOptions options;
    options.num_fewshot = set["num_fewshot"].get<int>();
    if (task_name == "mmlu") {
      options.subtasks = {fs::path(set["task_yaml"].get<std::string>()).stem().string()};
    }
    const bool chat = settings.value("apply_chat_template", false);
    if (chat) {
      options.chat =
          settings.value("fewshot_as_multiturn", false) ? Chat::kMultiTurn : Chat::kSingleTurn;
      options.render_chat = MessagesAsJson;
    }
    options.system_instruction = settings.value("system_instruction", "");
    const auto documents = RenderTask(task, SharedPath("data/" + task_name), options);
    ASSERT_TRUE(documents.ok()) << documents.status();
    for (const json& request : set["requests"]) {
      const Document& document = documents->at(request["doc_id"].get<size_t>());
      const auto index = request["idx"].get<size_t>();
      std::string expected = request["context"].get<std::string>();
      if (chat) {
        // Messages as JSON, then the bytes that stand outside of them.
        const std::string end = document.context_ends.empty() ? "" : document.context_ends[index];
        ASSERT_TRUE(expected.ends_with(end));
        expected.resize(expected.size() - end.size());
        EXPECT_EQ(json::parse(document.context), json::parse(expected));
      } else {
        EXPECT_EQ(document.Context(index), expected);
      }
      if (request["type"] == "generate_until") {
        EXPECT_THAT(document.continuations, ElementsAre());
        EXPECT_EQ(json(task.until), request["gen_kwargs"]["until"]);
      } else {
        EXPECT_EQ(document.continuations.at(index), request["continuation"].get<std::string>());
      }
      ++compared;
    }
  }
  const std::map<std::string, int> requests = {
      {"mmlu", 64}, {"winogrande", 16}, {"piqa", 8}, {"gsm8k", 8}};
  EXPECT_EQ(compared, requests.at(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Tasks, PromptVectors,
                         ::testing::Values("mmlu", "winogrande", "piqa", "gsm8k"),
                         [](const auto& param) { return param.param; });

class Rendering : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::path(::testing::TempDir()) /
               ::testing::UnitTest::GetInstance()->current_test_info()->name())
                  .string();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    task_.task = "quiz";
    task_.splits = {{"test", "test.jsonl"}, {"dev", "dev.jsonl"}};
    task_.test_split = "test";
    task_.fewshot_split = "dev";
    task_.sampler = tasks::Sampler::kFirstN;
    task_.doc_to_text = "Q: {{q}}";
    task_.doc_to_choice = {"{{ [a, b] }}"};
    task_.doc_to_choice_is_list_template = true;
    task_.doc_to_target = "label";
    Write("test.jsonl", R"({"q": "one", "a": "x", "b": "it's \"<b>\" & \\ [1, 2]", "label": 1})"
                        "\n"
                        R"({"q": "two", "a": "y\n", "b": "é", "label": 0})"
                        "\n");
    Write("dev.jsonl", R"({"q": "d1", "a": "yes", "b": "no", "label": 0})"
                       "\n"
                       R"({"q": "d2", "a": "yes", "b": "", "label": 1})"
                       "\n");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  absl::StatusOr<std::vector<Document>> Render() { return RenderTask(task_, folder_, options_); }
  std::string Error() { return std::string(Render().status().message()); }

  std::string folder_;
  tasks::TaskDefinition task_;
  RenderOptions options_;
};

TEST_F(Rendering, ChoicesOfAListTemplateAreTakenAsTheyAre) {
  const auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  ASSERT_EQ(documents->size(), 2u);
  const Document& one = (*documents)[0];
  EXPECT_EQ(one.id(), "quiz/0");
  EXPECT_EQ(one.context, "Q: one");
  EXPECT_THAT(one.continuations, ElementsAre(" x", " it's \"<b>\" & \\ [1, 2]"));
  EXPECT_THAT(one.choice_lengths, ElementsAre(1, 21));
  EXPECT_EQ(one.gold, 1);
  EXPECT_THAT((*documents)[1].continuations, ElementsAre(" y\n", " é"));
  EXPECT_THAT((*documents)[1].choice_lengths, ElementsAre(2, 1));
}

TEST_F(Rendering, AnEmptyTargetHasNoDelimiters) {
  options_.num_fewshot = 2;
  options_.system_instruction = "Be brief.";
  const auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].context, "Be brief.Q: d1 yes\n\nQ: d2Q: one");
}

TEST_F(Rendering, LeavesTheEvaluatedRowOutOfItsOwnExamples) {
  task_.fewshot_split = "test";
  task_.spare_example = true;
  options_.num_fewshot = 1;
  const auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].context, "Q: two y\n\n\nQ: one");
  EXPECT_EQ((*documents)[1].context, "Q: one it's \"<b>\" & \\ [1, 2]\n\nQ: two");
}

// random.Random(1234) over a pool of four: the first document is shown rows 3 and 0, the second 0
// and 3; drawn twice for each, as in a single user turn, both are shown 0 and 3.
TEST_F(Rendering, DrawsExamplesAnewForEachDocument) {
  task_.sampler = tasks::Sampler::kDefault;
  task_.target_delimiter = "=";
  task_.fewshot_delimiter = ";";
  Write("dev.jsonl", R"({"q": "d0", "a": "yes", "b": "no", "label": 0})"
                     "\n"
                     R"({"q": "d1", "a": "yes", "b": "no", "label": 1})"
                     "\n"
                     R"({"q": "d2", "a": "yes", "b": "no", "label": 0})"
                     "\n"
                     R"({"q": "d3", "a": "yes", "b": "no", "label": 1})"
                     "\n");
  options_.num_fewshot = 2;
  auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].context, "Q: d3=no;Q: d0=yes;Q: one");
  EXPECT_EQ((*documents)[1].context, "Q: d0=yes;Q: d3=no;Q: two");

  task_.spare_example = true;  // three are drawn, two are shown
  documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].context, "Q: d3=no;Q: d0=yes;Q: one");
  EXPECT_EQ((*documents)[1].context, "Q: d0=yes;Q: d2=yes;Q: two");

  task_.spare_example = false;
  options_.chat = Chat::kSingleTurn;
  options_.render_chat = MessagesAsJson;
  documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ(json::parse((*documents)[0].context)[0]["content"], "Q: d0=yes;Q: d3=no;Q: one");
  EXPECT_EQ(json::parse((*documents)[1].context)[0]["content"], "Q: d0=yes;Q: d3=no;Q: two");

  options_.num_fewshot = 5;
  EXPECT_THAT(Error(), HasSubstr("quiz has only 4 rows in split dev (got \"5\")"));
}

TEST_F(Rendering, ContextsMayBeTheChoices) {
  task_.doc_to_text = "{{label}}";
  task_.doc_to_target = "{{q}}";
  options_.num_fewshot = 1;
  auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  const Document& one = (*documents)[0];
  EXPECT_EQ(one.gold, 1);
  EXPECT_EQ(one.Context(0), "yes d1\n\nx");
  EXPECT_EQ(one.Context(1), "yes d1\n\nit's \"<b>\" & \\ [1, 2]");
  EXPECT_THAT(one.continuations, ElementsAre(" one", " one"));

  options_.num_fewshot = 0;  // a chat template gets no message at all
  options_.chat = Chat::kSingleTurn;
  options_.render_chat = MessagesAsJson;
  documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].Context(0), "[]x");
  task_.doc_to_text = "7";
  EXPECT_THAT(Error(), HasSubstr("doc_to_text: row 0: must be an index below the 2 choices"));
}

TEST_F(Rendering, TargetsMayBeTexts) {
  task_.doc_to_target = "{{b}}";
  const auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].gold, 1);
  task_.doc_to_target = "{{q}}";
  EXPECT_THAT(Error(), HasSubstr("task quiz: doc_to_target: row 0"));
  EXPECT_THAT(Error(), HasSubstr("none of the choices (got \"one\")"));
}

TEST_F(Rendering, AContinuationIsScoredAsItStands) {
  task_.output_type = tasks::OutputType::kLoglikelihood;
  task_.doc_to_choice.clear();
  task_.doc_to_choice_is_list_template = false;
  task_.doc_to_target = "{{b}}";
  options_.num_fewshot = 1;
  const auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  const Document& two = (*documents)[1];
  EXPECT_EQ(two.context, "Q: d1 no\n\nQ: two");
  EXPECT_THAT(two.continuations, ElementsAre("é")) << "no delimiter, as in the harness";
  EXPECT_THAT(two.choice_lengths, ElementsAre(1));
  EXPECT_EQ(two.gold, 0);
  EXPECT_FALSE(two.rolling);
}

TEST_F(Rendering, AWholeTextHasNothingBeforeIt) {
  task_.output_type = tasks::OutputType::kLoglikelihoodRolling;
  task_.doc_to_text = "";
  task_.doc_to_choice.clear();
  task_.doc_to_choice_is_list_template = false;
  task_.doc_to_target = "b";
  const auto documents = Render();
  ASSERT_TRUE(documents.ok()) << documents.status();
  const Document& one = (*documents)[0];
  EXPECT_TRUE(one.rolling);
  EXPECT_EQ(one.context, "");
  EXPECT_THAT(one.continuations, ElementsAre("it's \"<b>\" & \\ [1, 2]"));
  EXPECT_EQ(one.words, 6);
  EXPECT_EQ(one.bytes, 21);
  EXPECT_EQ((*documents)[1].bytes, 2);
}

TEST_F(Rendering, LimitCountsDocuments) {
  options_.limit = 1;
  EXPECT_EQ(Render()->size(), 1u);
}

TEST_F(Rendering, NamesTaskFieldAndRow) {
  task_.doc_to_text = "{{question}}";
  EXPECT_THAT(Error(), HasSubstr("task quiz: doc_to_text: row 0"));
  task_.doc_to_text = "{{ q";
  EXPECT_THAT(Error(), HasSubstr("task quiz: doc_to_text"));
  task_.doc_to_text = "q";
  task_.doc_to_choice = {"{{ q }}"};
  EXPECT_THAT(Error(), HasSubstr("doc_to_choice: row 0: must give a list"));
  task_.doc_to_choice = {"{{ [a, b] }}"};
  task_.doc_to_target = "2";
  EXPECT_THAT(Error(), HasSubstr("index below the 2 choices (got \"2\")"));
  task_.doc_to_target = "1";
  options_.num_fewshot = 3;
  EXPECT_THAT(Error(), HasSubstr("num_fewshot: quiz has only 2 rows in split dev (got \"3\")"));
  task_.fewshot_split = "";
  EXPECT_THAT(Error(), HasSubstr("num_fewshot: must be 0: task quiz names no split"));
  options_.num_fewshot = 0;
  options_.subtasks = {"algebra"};
  EXPECT_THAT(Error(), HasSubstr("subtasks: task quiz has no such subtask"));
  options_.subtasks = {};
  task_.splits["test"] = "gone.jsonl";
  EXPECT_TRUE(absl::IsNotFound(Render().status()));
  EXPECT_THAT(Error(), HasSubstr("gone.jsonl"));
  Write("empty.jsonl", "\n");
  task_.splits["test"] = "empty.jsonl";
  EXPECT_THAT(Error(), HasSubstr("task quiz: split test: has no rows"));
  options_.chat = Chat::kMultiTurn;
  options_.render_chat = [](const auto&) { return absl::InvalidArgumentError("no system role"); };
  task_.splits["test"] = "test.jsonl";
  EXPECT_THAT(Error(), HasSubstr("task quiz: no system role"));
}

// The shipped tasks that no vector covers, on rows of their data sets' form. What HellaSwag's texts
// become was printed by lm-evaluation-harness' own two functions, run on these rows.
class ShippedTasks : public Rendering {
 protected:
  std::vector<Document> RenderShipped(const std::string& name, const json& row) {
    task_ = Shipped(name);
    for (auto& [split, file] : task_.splits) Write(file, row.dump() + "\n");
    auto documents = Render();
    EXPECT_TRUE(documents.ok()) << documents.status();
    if (!documents.ok()) return {Document{}};
    return *documents;
  }
};

TEST_F(ShippedTasks, ArcChallenge) {
  const Document document = RenderShipped(
      "arc_challenge",
      {{"question", "What melts?"},
       {"answerKey", "3"},
       {"choices", {{"text", {"stone", "wood", "ice"}}, {"label", {"1", "2", "3"}}}}})[0];
  EXPECT_EQ(document.context, "Question: What melts?\nAnswer:");
  EXPECT_THAT(document.continuations, ElementsAre(" stone", " wood", " ice"));
  EXPECT_EQ(document.gold, 2);
}

TEST_F(ShippedTasks, BoolQ) {
  const Document document = RenderShipped(
      "boolq", {{"passage", "Ice floats."}, {"question", "does ice float"}, {"label", 1}})[0];
  EXPECT_EQ(document.context, "Ice floats.\nQuestion: does ice float?\nAnswer:");
  EXPECT_THAT(document.continuations, ElementsAre(" no", " yes"));
  EXPECT_EQ(document.gold, 1);
}

TEST_F(ShippedTasks, Gsm8k) {
  options_.num_fewshot = 0;
  const Document document =
      RenderShipped("gsm8k", {{"question", "1 + 1?"}, {"answer", "It is <<1+1=2>>2.\n#### 2"}})[0];
  EXPECT_EQ(document.context, "Question: 1 + 1?\nAnswer:");
  EXPECT_EQ(document.gold_text, "It is <<1+1=2>>2.\n#### 2");
  EXPECT_THAT(document.continuations, ElementsAre());
  EXPECT_EQ(document.gold, -1);
  task_.doc_to_target = "answer";
  Write("test.jsonl", R"({"question": "1 + 1?", "answer": ["2", "two"]})"
                      "\n");
  EXPECT_THAT(Error(), HasSubstr("column answer must hold text or a number"));
}

TEST_F(ShippedTasks, HellaSwag) {
  const Document document = RenderShipped(
      "hellaswag",
      {{"activity_label", "Baking bread"},
       {"ctx_a", "[header] A woman kneads dough [step] on a board."},
       {"ctx_b", "sHE then É"},
       {"endings",
        {"folds it [title] Next, wait  now ", "[substeps] sings a ] song.", "é [a]\n[b", "x"}},
       {"label", "1"}})[0];
  EXPECT_EQ(document.context, "Baking bread: A woman kneads dough on a board. She then é");
  EXPECT_THAT(document.continuations,
              ElementsAre(" folds it. Next, wait now", "  sings a ] song.", " é \n[b", " x"));
  EXPECT_EQ(document.gold, 1);
}

TEST(InlineRequests, StandAsTheyAre) {
  v1::InlineRequests requests;
  auto* question = requests.add_requests();
  question->set_context("Is it?\n");
  question->add_choices(" yes");
  question->add_choices("né");
  question->set_gold(1);
  requests.add_requests()->set_context("Only measured");
  auto documents = RenderInline(requests);
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ((*documents)[0].context, "Is it?\n");
  EXPECT_THAT((*documents)[0].continuations, ElementsAre(" yes", "né"));
  EXPECT_THAT((*documents)[0].choice_lengths, ElementsAre(3, 2));
  EXPECT_EQ((*documents)[0].gold, 1);
  EXPECT_EQ((*documents)[1].id(), "inline/1");
  EXPECT_EQ((*documents)[1].gold, -1);
  EXPECT_TRUE((*documents)[1].continuations.empty());

  question->set_gold(2);
  EXPECT_THAT(std::string(RenderInline(requests).status().message()),
              HasSubstr("requests[0].gold"));
}

}  // namespace
}  // namespace headcount::eval
