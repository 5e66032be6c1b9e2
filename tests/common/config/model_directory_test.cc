// From a client's model name to a folder: nothing outside the configured roots can be reached.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/base/errors.h"
#include "common/config/config.h"
#include "tests/common/base/temp_folder.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

class ModelDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"one/a", "one/model.v1", "two/a", "two/b", "outside/secret"}) {
      fs::create_directories(base_ / folder);
    }
    config_.model_roots = {(base_ / "missing").string(), (base_ / "one").string(),
                           (base_ / "two").string()};
  }

  TempFolder folder_;
  const fs::path base_ = folder_.path();
  Config config_;
};

TEST_F(ModelDirectory, TakesTheFirstRootThatHasIt) {
  EXPECT_EQ(*FindModelDirectory(config_, "a"), (base_ / "one/a").string());
  EXPECT_EQ(*FindModelDirectory(config_, "b"), (base_ / "two/b").string());
  EXPECT_EQ(*FindModelDirectory(config_, "model.v1"), (base_ / "one/model.v1").string());
}

TEST_F(ModelDirectory, UnknownNameIsNotFoundWithReasonAndField) {
  const absl::Status status = FindModelDirectory(config_, "c").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), "MODEL_NOT_FOUND");
  EXPECT_EQ(FieldOf(status), "model");
}

TEST_F(ModelDirectory, NamesThatAreNoNamesAreRefused) {
  const std::string nul("a\0b", 3);
  for (const std::string& name :
       {std::string(""), std::string("."), std::string(".."), std::string("../outside/secret"),
        std::string("a/../b"), std::string("/etc/passwd"), std::string(" a"), std::string("a "),
        std::string("%2e%2e"), nul, std::string(1 << 20, 'a'), std::string("a\nb"),
        std::string("\xe2\x80\xae"), std::string("a..b"), std::string("-a"), std::string("a\\b")}) {
    EXPECT_EQ(FindModelDirectory(config_, name).status().code(), absl::StatusCode::kInvalidArgument)
        << name.substr(0, 40);
  }
}

TEST_F(ModelDirectory, LinksMayNotLeaveTheRoots) {
  fs::create_directory_symlink(base_ / "outside/secret", base_ / "one/escape");
  const absl::Status status = FindModelDirectory(config_, "escape").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "MODEL_OUTSIDE_ROOT");
  fs::create_directory_symlink(base_ / "two/b", base_ / "one/inside");
  EXPECT_EQ(*FindModelDirectory(config_, "inside"), (base_ / "one/inside").string());
}

}  // namespace
}  // namespace headcount
