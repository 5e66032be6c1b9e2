// From a client's model name to a folder: nothing outside the configured roots can be reached.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
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

TEST_F(ModelDirectory, ACacheOfTheHubIsSearchedByTheHubsNames) {
  const fs::path cached = base_ / "two/models--org--Some-Model";
  fs::create_directories(cached / "refs");
  fs::create_directories(cached / "snapshots/abc");
  EXPECT_EQ(*FindModelDirectory(config_, "org/Some-Model"), (cached / "snapshots/abc").string());
  fs::create_directories(cached / "snapshots/def");  // which of the two?
  EXPECT_EQ(FindModelDirectory(config_, "org/Some-Model").status().code(),
            absl::StatusCode::kNotFound);
  std::ofstream(cached / "refs/main") << "def\n";
  EXPECT_EQ(*FindModelDirectory(config_, "org/Some-Model"), (cached / "snapshots/def").string());
  std::ofstream(cached / "refs/main") << "../../../../outside/secret";
  EXPECT_EQ(FindModelDirectory(config_, "org/Some-Model").status().code(),
            absl::StatusCode::kNotFound);
  fs::create_directories(base_ / "two/models--gpt2/snapshots/1");
  EXPECT_EQ(*FindModelDirectory(config_, "gpt2"),
            (base_ / "two/models--gpt2/snapshots/1").string());
  for (const char* name : {"org/", "/Some-Model", "org/a/b", "org/../b", "org/.b", "./b"}) {
    EXPECT_EQ(FindModelDirectory(config_, name).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST_F(ModelDirectory, ListsWhatItFinds) {
  fs::create_directories(base_ / "two/models--org--Some-Model/snapshots/abc");
  fs::create_directories(base_ / "two/models--org--empty/snapshots");
  fs::create_directories(base_ / "two/.locks");
  std::map<std::string, std::string> found;
  for (const ModelFolder& model : ListModelFolders((base_ / "two").string())) {
    found[model.name] = model.folder;
    EXPECT_EQ(*FindModelDirectory(config_, model.name == "a" ? "b" : model.name),
              model.name == "a" ? (base_ / "two/b").string() : model.folder);
  }
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found["org/Some-Model"],
            (base_ / "two/models--org--Some-Model/snapshots/abc").string());
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
