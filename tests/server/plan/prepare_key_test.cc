// What makes two manifests equal, and what must not.

#include "server/plan/prepare_key.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "tests/server/plan/fake_catalog.h"

namespace headcount::plan {
namespace {

class PrepareKeyTest : public testing::Test {
 protected:
  std::string Key(const std::string& workload) {
    v1::Workload parsed;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(workload, &parsed)) << workload;
    const auto key = PrepareKey(parsed, catalog_);
    EXPECT_TRUE(key.ok()) << key.status();
    return key.value_or("");
  }
  std::string TaskKey(const std::string& source) {
    return Key(absl::StrCat("model: 'tiny' task { task: 'subjects' ", source, " }"));
  }

  FakeCatalog catalog_;
};

TEST_F(PrepareKeyTest, DefaultsAndSpellingsAreEqual) {
  const std::string key = TaskKey("subtasks: 'algebra'");
  EXPECT_EQ(TaskKey("subtasks: 'subjects_algebra'"), key);
  EXPECT_EQ(TaskKey("subtasks: 'algebra' num_fewshot: 5"), key);
  EXPECT_EQ(TaskKey("subtasks: 'algebra' chat: CHAT_FORMAT_PLAIN"), key);
  EXPECT_EQ(TaskKey("subtasks: 'algebra' bos: BOS_HARNESS"), key);
  EXPECT_EQ(
      Key("model: 'tiny' dtype: DTYPE_BFLOAT16 task { task: 'subjects' subtasks: 'algebra' }"), key)
      << "token ids do not depend on the dtype";
}

TEST_F(PrepareKeyTest, EverythingThatChangesTokenIdsChangesTheKey) {
  std::set<std::string> keys;
  auto expect_new = [&keys](const std::string& key) { EXPECT_TRUE(keys.insert(key).second); };
  expect_new(TaskKey(""));
  expect_new(TaskKey("subtasks: 'algebra'"));
  expect_new(TaskKey("subtasks: 'algebra' subtasks: 'botany'"));
  expect_new(TaskKey("subtasks: 'botany' subtasks: 'algebra'"));
  expect_new(TaskKey("limit: 2"));
  expect_new(TaskKey("num_fewshot: 0"));
  expect_new(TaskKey("system_instruction: 'Be brief.'"));
  expect_new(TaskKey("chat: CHAT_FORMAT_MULTI_TURN"));
  expect_new(Key("model: 'chatty' task { task: 'subjects' }"));
  expect_new(Key("model: 'tiny' task { task: 'pairs' }"));
  expect_new(Key("model: 'tiny' requests { requests { context: 'a' } }"));
  expect_new(Key("model: 'tiny' requests { requests { context: 'a' choices: 'b' choices: 'c' } }"));
  catalog_.data_digest = "other data";
  expect_new(TaskKey(""));
  catalog_.task_digest = "other task file";
  expect_new(TaskKey(""));
  catalog_.tokenizer_digest = "other tokenizer";
  expect_new(TaskKey(""));
  expect_new(Key("model: 'tiny' requests { requests { context: 'a' } }"));
}

TEST_F(PrepareKeyTest, ErrorsOfTheCataloguePassThrough) {
  v1::Workload workload;
  workload.set_model("none");
  EXPECT_TRUE(absl::IsNotFound(PrepareKey(workload, catalog_).status()));
  workload.set_model("tiny");
  workload.mutable_task()->set_task("unread");
  EXPECT_TRUE(absl::IsFailedPrecondition(PrepareKey(workload, catalog_).status()));
}

TEST(ShortSubtaskTest, TheTasksPrefixIsOptional) {
  EXPECT_EQ(ShortSubtask("mmlu", "mmlu_law"), "law");
  EXPECT_EQ(ShortSubtask("mmlu", "law"), "law");
  EXPECT_EQ(ShortSubtask("mmlu", "mmlu_"), "mmlu_");
  EXPECT_EQ(ShortSubtask("mmlu", "mmlux_law"), "mmlux_law");
}

}  // namespace
}  // namespace headcount::plan
