// Manifests by digest, and the slices that workers fetch.

#include "server/queue/manifest_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/format/frame.h"
#include "tests/server/plan/manifests.h"

namespace headcount::queue {
namespace {

using testing::ElementsAre;

std::string Put(store::ArtifactStore& artifacts, const v1::Manifest& manifest) {
  return artifacts.Put(format::Frame(format::FrameKind::kManifest, manifest)).value();
}

TEST(ManifestCacheTest, KeepsTheLastUsed) {
  auto artifacts = store::ArtifactStore::InMemory();
  const std::string a = Put(*artifacts, plan::Pairs(1));
  const std::string b = Put(*artifacts, plan::Pairs(2));
  const std::string c = Put(*artifacts, plan::Pairs(3));
  ManifestCache cache(*artifacts, 2);
  const auto first = cache.Get(a);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->documents_size(), 1);
  ASSERT_TRUE(cache.Get(b).ok());
  EXPECT_EQ(cache.Get(a)->get(), first->get()) << "read once";
  ASSERT_TRUE(cache.Get(c).ok());  // b is the one unused for longest
  EXPECT_EQ(cache.Get(a)->get(), first->get());
  EXPECT_EQ((*cache.Get(b))->documents_size(), 2);
}

TEST(ManifestCacheTest, UnknownAndForeignDigests) {
  auto artifacts = store::ArtifactStore::InMemory();
  ManifestCache cache(*artifacts);
  EXPECT_TRUE(absl::IsNotFound(cache.Get(std::string(64, '0')).status()));
  EXPECT_FALSE(cache.Get("../../etc/passwd").ok());
  const std::string chunk =
      artifacts->Put(format::Frame(format::FrameKind::kScoreChunk, v1::ScoreChunk())).value();
  EXPECT_TRUE(absl::IsDataLoss(cache.Get(chunk).status()));
}

TEST(ManifestCacheTest, ThreadsShareIt) {
  auto artifacts = store::ArtifactStore::InMemory();
  std::vector<std::string> digests;
  for (int i = 1; i <= 4; ++i) digests.push_back(Put(*artifacts, plan::Pairs(i)));
  ManifestCache cache(*artifacts, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ((*cache.Get(digests[i % 4]))->documents_size(), i % 4 + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SliceManifestTest, ASliceInTheMiddleOfAGroupCarriesItsPrefix) {
  const v1::Manifest manifest = plan::MakeManifest({{1, 1, 1}, {1, 1}});
  const auto pieces = SliceManifest(manifest, 1, 3);
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  ASSERT_EQ(pieces->size(), 1u);
  const v1::ManifestSlice& slice = pieces->front();
  ASSERT_EQ(slice.samples_size(), 3);
  EXPECT_EQ(slice.samples(0).id(), "pairs/1/0");
  ASSERT_EQ(slice.groups_size(), 2);
  EXPECT_EQ(slice.groups(0).group(), 0);
  EXPECT_EQ(slice.groups(1).group(), 1);
  EXPECT_THAT(slice.groups(1).prefix(), ElementsAre(1));
}

TEST(SliceManifestTest, TheFirstPieceSaysHowPromptsAreContinued) {
  v1::Manifest manifest = plan::Pairs(3);
  EXPECT_FALSE((*SliceManifest(manifest, 0, 6))[0].has_generation());
  manifest.mutable_generation()->set_max_new_tokens(7);
  const auto pieces = SliceManifest(manifest, 2, 4, 1);
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  ASSERT_EQ(pieces->size(), 4u);
  EXPECT_EQ((*pieces)[0].generation().max_new_tokens(), 7);
  EXPECT_FALSE((*pieces)[1].has_generation());
}

TEST(SliceManifestTest, LargeSlicesComeInPieces) {
  const v1::Manifest manifest = plan::MakeManifest({{1, 1, 1, 1, 1, 1}, {1, 1, 1}});
  const auto whole = SliceManifest(manifest, 0, 9);
  const auto pieces = SliceManifest(manifest, 0, 9, 120);
  ASSERT_TRUE(pieces.ok());
  EXPECT_GT(pieces->size(), 2u);
  v1::ManifestSlice joined;
  for (const v1::ManifestSlice& piece : *pieces) {
    EXPECT_LE(piece.ByteSizeLong(), 160u);
    EXPECT_GE(piece.samples_size(), 1);
    joined.MergeFrom(piece);
  }
  EXPECT_EQ(joined.SerializeAsString(), whole->front().SerializeAsString());
}

TEST(SliceManifestTest, ASampleLargerThanAPieceIsAPieceOfItsOwn) {
  const auto pieces = SliceManifest(plan::Pairs(2), 0, 4, 1);
  ASSERT_TRUE(pieces.ok());
  EXPECT_EQ(pieces->size(), 4u);
}

TEST(SliceManifestTest, BeyondTheEnd) {
  const v1::Manifest manifest = plan::Pairs(2);
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 1}, {0, 0}, {0, 5}, {4, 1}, {3, 2}, {1, INT64_MAX}, {INT64_MAX, 1}}) {
    EXPECT_TRUE(absl::IsOutOfRange(SliceManifest(manifest, first, count).status()))
        << first << " " << count;
  }
  EXPECT_TRUE(SliceManifest(manifest, 3, 1).ok());
}

}  // namespace
}  // namespace headcount::queue
