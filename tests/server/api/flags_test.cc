// headcountd's command line over its configuration file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.h"
#include "common/base/files.h"
#include "server/api/headcountd_flags.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::server {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

absl::StatusOr<Invocation> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "headcountd");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Flags, OverrideTheFileAndAddToItsLists) {
  TempFolder folder;
  ASSERT_TRUE(WriteFileDurably(folder.File("c.yaml"),
                               "listen: 127.0.0.1:1\nmodel_roots: [/a]\ndata: {mmlu: /m}\n"
                               "workers: [{device: cpu}]\nlog_level: warn\n")
                  .ok());
  const std::string file = folder.File("c.yaml");
  const auto plain = Parse({"--config", file.c_str()});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->config.listen, "127.0.0.1:1");
  EXPECT_EQ(plain->config.workers.size(), 1u);
  const auto both =
      Parse({"--config", file.c_str(), "--listen=127.0.0.1:0", "--model-root", "/b",
             "--model-root=/c", "--data", "piqa=/p", "--state-dir", "/s", "--metrics-listen=none",
             "--no-workers", "--log-level", "debug", "--tasks", "/t"});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->config.listen, "127.0.0.1:0");
  EXPECT_THAT(both->config.model_roots, ElementsAre("/a", "/b", "/c"));
  EXPECT_THAT(both->config.data, ElementsAre(Pair("mmlu", "/m"), Pair("piqa", "/p")));
  EXPECT_EQ(both->config.state_dir, "/s");
  EXPECT_EQ(both->config.metrics_listen, "");
  EXPECT_TRUE(both->config.workers_set);
  EXPECT_TRUE(both->config.workers.empty());
  EXPECT_EQ(both->config.log_level, "debug");
  EXPECT_EQ(both->tasks, "/t");
  EXPECT_FALSE(both->exit.has_value());
}

TEST(Flags, NothingIsRequired) { EXPECT_TRUE(Parse({}).ok()); }

TEST(Flags, ValuesAreChecked) {
  EXPECT_EQ(FieldOf(Parse({"--listen", "nowhere"}).status()), "listen");
  EXPECT_EQ(FieldOf(Parse({"--data", "mmlu"}).status()), "--data");
  EXPECT_EQ(FieldOf(Parse({"--model-root", ""}).status()), "--model-root");
  EXPECT_EQ(FieldOf(Parse({"--log-level", "loud"}).status()), "log_level");
  EXPECT_EQ(Parse({"--config", "/nowhere.yaml"}).status().code(), absl::StatusCode::kNotFound);
}

TEST(Flags, HelpAndVersionExitWithZeroAndUnknownFlagsWithTwo) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--help"})->exit, 0);
  EXPECT_EQ(Parse({"--version"})->exit, 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("Example"), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse({"--bogus"})->exit, 2);
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace headcount::server
