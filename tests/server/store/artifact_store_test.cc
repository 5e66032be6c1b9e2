// Both artifact stores: what is put is got back, damage is seen, collection removes only what is
// old and named by nobody.

#include "server/store/artifact_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::store {
namespace {

namespace fs = std::filesystem;

class ArtifactFolder : public ::testing::Test {
 protected:
  std::string PathOf(const std::string& digest) const {
    return folder_.File("chunks/" + digest.substr(0, 2) + "/" + digest);
  }
  static void Age(const std::string& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }

  TempFolder folder_;
  std::unique_ptr<ArtifactStore> store_ = *ArtifactStore::OpenFolder(folder_.File("chunks"));
};

TEST(ArtifactStore, BothKindsGiveBackWhatWasPut) {
  TempFolder folder;
  for (auto& store : {ArtifactStore::InMemory(), *ArtifactStore::OpenFolder(folder.path())}) {
    std::string bytes("a\0b", 3);
    auto digest = store->Put(bytes);
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, Sha256Hex(bytes));
    EXPECT_EQ(*store->Get(*digest), bytes);
    EXPECT_EQ(*store->Put(bytes), *digest);
    EXPECT_EQ(*store->Get(*store->Put("")), "");
    EXPECT_TRUE(absl::IsNotFound(store->Get(Sha256Hex("other")).status()));
    EXPECT_TRUE(absl::IsNotFound(store->Get("../../etc/passwd").status()));
    EXPECT_TRUE(absl::IsNotFound(store->Get("").status()));
  }
}

TEST(ArtifactStore, InMemoryCollectsAtOnce) {
  auto store = ArtifactStore::InMemory();
  const std::string kept = *store->Put("kept");
  const std::string gone = *store->Put("gone!");
  EXPECT_EQ(*store->Collect({kept}), 5);
  EXPECT_TRUE(store->Get(kept).ok());
  EXPECT_TRUE(absl::IsNotFound(store->Get(gone).status()));
}

TEST_F(ArtifactFolder, AFileLiesUnderItsDigestAndIsThereWhenOpenedAgain) {
  const std::string digest = *store_->Put("bytes");
  EXPECT_EQ(*ReadFile(PathOf(digest)), "bytes");
  store_ = *ArtifactStore::OpenFolder(folder_.File("chunks"));
  EXPECT_EQ(*store_->Get(digest), "bytes");
}

TEST_F(ArtifactFolder, DamageIsDataLoss) {
  const std::string digest = *store_->Put("bytes");
  ASSERT_EQ(WriteFileDurably(PathOf(digest), "bytez"), absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(store_->Get(digest).status()));
  // A file that an accident cut short is written anew by the next who has the bytes.
  fs::resize_file(PathOf(digest), 2);
  EXPECT_TRUE(absl::IsDataLoss(store_->Get(digest).status()));
  EXPECT_EQ(*store_->Put("bytes"), digest);
  EXPECT_EQ(*store_->Get(digest), "bytes");
}

TEST_F(ArtifactFolder, CollectionSparesTheLiveTheYoungAndTheForeign) {
  const std::string live = *store_->Put("live");
  const std::string young = *store_->Put("young");
  const std::string old = *store_->Put("old file");
  const std::string again = *store_->Put("put again");
  const std::string foreign = folder_.File("chunks/README");
  const std::string broken = PathOf(old) + ".tmp.123.4";  // an interrupted write
  ASSERT_EQ(WriteFileDurably(foreign, "not ours"), absl::OkStatus());
  ASSERT_EQ(WriteFileDurably(broken, "old"), absl::OkStatus());
  for (const std::string& path : {PathOf(live), PathOf(old), PathOf(again), foreign, broken})
    Age(path);
  ASSERT_EQ(*store_->Put("put again"), again);  // about to be named: young again
  EXPECT_EQ(*store_->Collect({live}), 8 + 3);
  EXPECT_TRUE(store_->Get(live).ok());
  EXPECT_TRUE(store_->Get(young).ok());
  EXPECT_TRUE(store_->Get(again).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(old).status()));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_FALSE(fs::exists(broken));
}

TEST_F(ArtifactFolder, ManyThreadsPutTheSameBytes) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(store_->Put(absl::StrCat("bytes ", i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.File("chunks")))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 10);
}

TEST(ArtifactStore, AFolderThatCannotBeMadeIsRefused) {
  TempFolder folder;
  ASSERT_EQ(WriteFileDurably(folder.File("file"), "x"), absl::OkStatus());
  auto store = ArtifactStore::OpenFolder(folder.File("file"));
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()), ::testing::HasSubstr(folder.File("file")));
}

}  // namespace
}  // namespace headcount::store
