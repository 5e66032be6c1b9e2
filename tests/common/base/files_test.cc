// Files read and written whole: durable, never half there, errors that name the path.

#include "common/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/common/base/temp_folder.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(Files, WhatIsWrittenIsReadBack) {
  TempFolder folder;
  const std::string path = folder.File("f");
  for (const std::string& bytes : {std::string("a\0\xff\n", 4), std::string(),
                                   std::string(3'000'000, 'x'), std::string("short again")}) {
    ASSERT_EQ(WriteFileDurably(path, bytes), absl::OkStatus());
    EXPECT_EQ(*ReadFile(path), bytes);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Files, AFileOverTheLimitIsRefusedWithBothNumbers) {
  TempFolder folder;
  const std::string path = folder.File("f");
  ASSERT_EQ(WriteFileDurably(path, "12345"), absl::OkStatus());
  EXPECT_TRUE(ReadFile(path, 5).ok());
  const absl::Status status = ReadFile(path, 4).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), path + " has 5 bytes, the limit is 4");
}

TEST(Files, ErrorsNameThePath) {
  TempFolder folder;
  const std::string none = folder.File("none/f");
  EXPECT_TRUE(absl::IsNotFound(ReadFile(none).status()));
  EXPECT_THAT(std::string(ReadFile(none).status().message()), HasSubstr(none));
  const absl::Status write = WriteFileDurably(none, "x");
  EXPECT_TRUE(absl::IsNotFound(write)) << write;
  EXPECT_THAT(std::string(write.message()), HasSubstr(none));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(folder.path()).status()));
}

TEST(Files, AWriteThatFailsLeavesNothingBehind) {
  TempFolder folder;
  fs::create_directory(folder.File("taken"));
  fs::create_directory(folder.File("taken/inside"));  // a folder that a file cannot replace
  EXPECT_FALSE(WriteFileDurably(folder.File("taken"), "x").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Files, ReadersSeeOneWriteOrTheOther) {
  TempFolder folder;
  const std::string path = folder.File("f");
  const std::vector<std::string> versions = {std::string(50'000, 'a'), std::string(70'000, 'b')};
  ASSERT_EQ(WriteFileDurably(path, versions[0]), absl::OkStatus());
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(WriteFileDurably(path, versions[i % 2]).ok());
    done = true;
  });
  while (!done) {
    auto bytes = ReadFile(path);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(*bytes == versions[0] || *bytes == versions[1]) << bytes->size();
  }
  writer.join();
}

}  // namespace
}  // namespace headcount
