// Reading a finished file in pieces.

#include "server/api/download.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::server {
namespace {

TEST(Download, PiecesOfOneMebibyteMakeTheFile) {
  TempFolder folder;
  std::string bytes((2 << 20) + 12345, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 5);
  ASSERT_TRUE(WriteFileDurably(folder.File("x"), bytes).ok());
  auto download = Download::Open(folder.File("x"), 5);
  ASSERT_TRUE(download.ok()) << download.status();
  // Removed meanwhile: a download that is going on goes on.
  std::filesystem::remove(folder.File("x"));
  std::string got;
  v1::ArtifactChunk chunk;
  int pieces = 0;
  while (true) {
    const auto more = (*download)->Next(&chunk);
    ASSERT_TRUE(more.ok());
    if (!*more) break;
    EXPECT_EQ(chunk.offset(), static_cast<int64_t>(5 + got.size()));
    EXPECT_EQ(chunk.crc32c(), Crc32c(chunk.data()));
    EXPECT_EQ(chunk.total_bytes(), static_cast<int64_t>(bytes.size()));
    got += chunk.data();
    ++pieces;
  }
  EXPECT_EQ(got, bytes.substr(5));
  EXPECT_EQ(pieces, 3);
}

TEST(Download, AnEmptyRestStillTellsTheSize) {
  TempFolder folder;
  ASSERT_TRUE(WriteFileDurably(folder.File("x"), "abc").ok());
  auto download = Download::Open(folder.File("x"), 3);
  v1::ArtifactChunk chunk;
  EXPECT_TRUE(*(*download)->Next(&chunk));
  EXPECT_EQ(chunk.total_bytes(), 3);
  EXPECT_EQ(chunk.data(), "");
  EXPECT_FALSE(*(*download)->Next(&chunk));
}

TEST(Download, OffsetsOutsideAndMissingFiles) {
  TempFolder folder;
  ASSERT_TRUE(WriteFileDurably(folder.File("x"), "abc").ok());
  EXPECT_EQ(Download::Open(folder.File("x"), 4).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Download::Open(folder.File("x"), -1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Download::Open(folder.File("y"), 0).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace headcount::server
