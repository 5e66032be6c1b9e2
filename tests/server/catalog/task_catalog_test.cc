// Task files and their rows as the catalogue sees them, over the shipped files and made-up data.

#include "server/catalog/task_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.h"
#include "server/catalog/row_count.h"
#include "tests/common/base/temp_folder.h"
#include "tests/server/catalog/model_folder.h"

namespace headcount::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TaskCatalogTest : public ::testing::Test {
 protected:
  TaskCatalogTest() {
    data_ = folder_.path();
    fs::create_directories(data_ / "mmlu/test");
    fs::create_directories(data_ / "mmlu/dev");
    for (const char* subject : {"anatomy", "botany"}) {
      WriteText(data_ / "mmlu/test" / (std::string(subject) + "_test.csv"),
                "q,1,2,3,4,A\n\"two\nlines, \"\"quoted\"\"\",1,2,3,4,B\n");
      WriteText(data_ / "mmlu/dev" / (std::string(subject) + "_dev.csv"), "q,1,2,3,4,A\n");
    }
    fs::create_directories(data_ / "own");
  }

  TaskCatalog Catalog() {
    return TaskCatalog({"tasks", (data_ / "own").string()}, {{"mmlu", (data_ / "mmlu").string()}},
                       [](const std::string& path) -> absl::StatusOr<int64_t> {
                         if (path.ends_with("rows.parquet")) return 17;
                         return absl::NotFoundError(path);
                       });
  }

  static v1::TaskSource Mmlu(const std::vector<std::string>& subtasks,
                             const std::string& split = "") {
    v1::TaskSource source;
    source.set_task("mmlu");
    source.set_split(split);
    for (const std::string& subtask : subtasks) source.add_subtasks(subtask);
    return source;
  }

  static v1::TaskInfo Find(const std::vector<v1::TaskInfo>& tasks, const std::string& name) {
    for (const v1::TaskInfo& task : tasks) {
      if (task.task() == name) return task;
    }
    ADD_FAILURE() << name << " is not listed";
    return {};
  }

  TempFolder folder_;
  fs::path data_;
};

TEST_F(TaskCatalogTest, ListsShippedTasksWithWhatTheyHave) {
  TaskCatalog catalog = Catalog();
  const std::vector<v1::TaskInfo> tasks = catalog.List();
  const v1::TaskInfo mmlu = Find(tasks, "mmlu");
  EXPECT_EQ(mmlu.problem(), "");
  EXPECT_THAT(mmlu.subtasks(), ElementsAre("anatomy", "botany"));
  EXPECT_EQ(mmlu.documents(), 4);
  EXPECT_THAT(mmlu.metrics(), ElementsAre("acc"));
  EXPECT_EQ(mmlu.output_type(), "multiple_choice");
  const v1::TaskInfo everyday = Find(tasks, "everyday");
  EXPECT_EQ(everyday.problem(), "");
  EXPECT_GE(everyday.documents(), 200);
  EXPECT_EQ(everyday.subtasks_size(), 0);
}

TEST_F(TaskCatalogTest, AsksForTheRowsOfAParquetFile) {
  fs::create_directories(data_ / "own/data/mine");
  WriteText(data_ / "own/mine.yaml", R"(task: mine
output_type: multiple_choice
test_split: test
doc_to_text: "{{q}}"
doc_to_choice: ["a", "b"]
doc_to_target: "{{a}}"
headcount: {data: mine, format: parquet, splits: {test: rows.parquet}}
)");
  WriteText(data_ / "own/data/mine/rows.parquet", "");
  TaskCatalog catalog = Catalog();
  EXPECT_EQ(Find(catalog.List(), "mine").documents(), 17);
}

TEST_F(TaskCatalogTest, ATaskWithoutItsDataSaysWhichKeyToConfigure) {
  TaskCatalog catalog = Catalog();
  EXPECT_THAT(Find(catalog.List(), "piqa").problem(), HasSubstr("data.piqa"));
  const absl::Status status = catalog.Find("piqa").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FieldOf(status), "task");
}

TEST_F(TaskCatalogTest, FindsByNameAlone) {
  TaskCatalog catalog = Catalog();
  const auto facts = catalog.Find("mmlu");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->definition->task, "mmlu");
  EXPECT_THAT(facts->subtasks, ElementsAre("anatomy", "botany"));
  EXPECT_EQ(ReasonOf(catalog.Find("nonsense").status()), "TASK_NOT_FOUND");
  for (const char* name : {"../mmlu", "mmlu/../mmlu", "/etc/passwd", "", "mmlu.yaml/"}) {
    EXPECT_EQ(catalog.Find(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST_F(TaskCatalogTest, NamesAFileOfExamplesThatIsMissing) {
  TaskCatalog catalog = Catalog();
  EXPECT_EQ(catalog.Find("mmlu")->missing_pool, "");
  std::filesystem::remove(data_ / "mmlu/dev/botany_dev.csv");
  EXPECT_THAT(catalog.Find("mmlu")->missing_pool, HasSubstr("mmlu/dev/botany_dev.csv"));
}

TEST_F(TaskCatalogTest, AFileThatDoesNotParseIsListedAndHidesNoOther) {
  WriteText(data_ / "own/bad.yaml", "task: bad\ndoc_to_text: !function x.y\n");
  TaskCatalog catalog = Catalog();
  const std::vector<v1::TaskInfo> tasks = catalog.List();
  EXPECT_NE(Find(tasks, "bad.yaml").problem(), "");
  EXPECT_EQ(Find(tasks, "mmlu").problem(), "");
}

TEST_F(TaskCatalogTest, ATaskFileOfTheOperatorIsSeenAtOnceAndWins) {
  TaskCatalog catalog = Catalog();
  EXPECT_TRUE(catalog.Find("everyday").ok());
  WriteText(data_ / "own/everyday.yaml",
            "task: everyday\ndoc_to_text: \"{{q}}\"\ndoc_to_choice: [\"a\", \"b\"]\n"
            "doc_to_target: \"0\"\ntest_split: test\n"
            "headcount: {title: mine, data: nowhere, format: jsonl, splits: {test: x.jsonl}}\n");
  EXPECT_THAT(Find(catalog.List(), "everyday").problem(), HasSubstr("data.nowhere"));
}

TEST_F(TaskCatalogTest, TheDataDigestChangesWithEveryByteThatIsRead) {
  TaskCatalog catalog = Catalog();
  const std::string all = *catalog.DataDigest(Mmlu({}));
  const std::string anatomy = *catalog.DataDigest(Mmlu({"anatomy"}));
  EXPECT_NE(all, anatomy);
  EXPECT_EQ(*catalog.DataDigest(Mmlu({"mmlu_anatomy"})), anatomy);
  EXPECT_EQ(*catalog.DataDigest(Mmlu({"botany", "anatomy"})), all);
  WriteText(data_ / "mmlu/test/botany_test.csv", "another,1,2,3,4,B\n");
  EXPECT_EQ(*catalog.DataDigest(Mmlu({"anatomy"})), anatomy);
  EXPECT_NE(*catalog.DataDigest(Mmlu({})), all);
  WriteText(data_ / "mmlu/dev/anatomy_dev.csv", "q,1,2,3,4,B\n");
  EXPECT_NE(*catalog.DataDigest(Mmlu({"anatomy"})), anatomy);
  EXPECT_EQ(catalog.DataDigest(Mmlu({"chess"})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TaskCatalogTest, AnotherSplitHasItsOwnFiles) {
  TaskCatalog catalog = Catalog();
  const auto facts = catalog.Find("mmlu", "dev");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->definition->test_split, "dev");
  const std::string test = *catalog.DataDigest(Mmlu({}));
  const std::string dev = *catalog.DataDigest(Mmlu({}, "dev"));
  EXPECT_NE(dev, test);
  EXPECT_EQ(*catalog.DataDigest(Mmlu({}, "test")), test) << "its own split by name";
  WriteText(data_ / "mmlu/test/botany_test.csv", "another,1,2,3,4,B\n");
  EXPECT_EQ(*catalog.DataDigest(Mmlu({}, "dev")), dev) << "which is not read";
  const absl::Status unknown = catalog.Find("mmlu", "train").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(unknown), "split");
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("must be a split of task mmlu: dev, test"));
  fs::remove(data_ / "mmlu/dev/anatomy_dev.csv");
  EXPECT_EQ(ReasonOf(catalog.Find("mmlu", "dev").status()), "DATA_NOT_FOUND");
}

TEST(RowCount, CountsRecordsNotLines) {
  using tasks::FileFormat;
  EXPECT_EQ(CountRows("", FileFormat::kCsv), 0);
  EXPECT_EQ(CountRows("a,b\nc,d", FileFormat::kCsv), 2);
  EXPECT_EQ(CountRows("\"a\nb\",c\r\n\r\nd,e\r\n", FileFormat::kCsv), 2);
  EXPECT_EQ(CountRows("\"a\"\"\n\"\"b\",c\n", FileFormat::kCsv), 1);
  EXPECT_EQ(CountRows("{\"a\": \"\\\"\"}\n\n{}\n", FileFormat::kJsonl), 2);
}

}  // namespace
}  // namespace headcount::server
