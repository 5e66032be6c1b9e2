// The frame around chunks: what goes in comes out, and nothing but a whole, intact frame is read.

#include "common/format/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zstd.h>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::format {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::ScoreChunk SomeChunk() {
  v1::ScoreChunk chunk;
  chunk.set_first_sample(32);
  chunk.set_samples(2);
  v1::Slab& slab = *chunk.add_slabs();
  slab.set_measurement("entropy");
  for (int i = 0; i < 64; ++i) slab.mutable_values()->push_back(static_cast<char>(i * 37));
  chunk.add_results()->add_log_likelihoods(-1.5f);
  return chunk;
}

absl::Status Read(std::string_view bytes) {
  v1::ScoreChunk chunk;
  return Unframe(FrameKind::kScoreChunk, bytes, &chunk);
}

// Writes a header as frame.h says, with a right checksum, around any payload bytes.
std::string Forge(int kind, int version, uint64_t size, const std::string& payload) {
  std::string rest;
  for (int i = 0; i < 8; ++i) rest.push_back(static_cast<char>(size >> (8 * i)));
  rest += payload;
  std::string out = "HCNT";
  out.push_back(static_cast<char>(kind));
  out.push_back(static_cast<char>(version));
  out.append(2, '\0');
  const uint32_t crc = Crc32c(rest);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(crc >> (8 * i)));
  return out + rest;
}

std::string Compressed(const std::string& plain) {
  std::string out(ZSTD_compressBound(plain.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 3));
  return out;
}

TEST(Frame, WhatGoesInComesOut) {
  const v1::ScoreChunk chunk = SomeChunk();
  const std::string bytes = Frame(FrameKind::kScoreChunk, chunk);
  v1::ScoreChunk read;
  ASSERT_EQ(Unframe(FrameKind::kScoreChunk, bytes, &read), absl::OkStatus());
  EXPECT_EQ(read.SerializeAsString(), chunk.SerializeAsString());
  EXPECT_EQ(Frame(FrameKind::kScoreChunk, read), bytes);  // equal results, equal bytes
}

TEST(Frame, AnEmptyPayloadAndALargeOneAreFramesToo) {
  v1::ScoreChunk chunk;
  v1::ScoreChunk read = SomeChunk();
  ASSERT_EQ(Unframe(FrameKind::kScoreChunk, Frame(FrameKind::kScoreChunk, chunk), &read),
            absl::OkStatus());
  EXPECT_EQ(read.ByteSizeLong(), 0u);
  // All zero compresses as far as zstd can: still less than what the guard allows.
  chunk.add_slabs()->set_values(std::string(20'000'000, '\0'));
  const std::string bytes = Frame(FrameKind::kScoreChunk, chunk);
  EXPECT_LT(bytes.size(), 10'000u);
  ASSERT_EQ(Unframe(FrameKind::kScoreChunk, bytes, &read), absl::OkStatus());
  EXPECT_EQ(read.slabs(0).values().size(), 20'000'000u);
}

TEST(Frame, TheHeaderIsAsDocumented) {
  const v1::ScoreChunk chunk = SomeChunk();
  const std::string plain = chunk.SerializeAsString();
  EXPECT_EQ(Frame(FrameKind::kScoreChunk, chunk), Forge(2, 1, plain.size(), Compressed(plain)));
  EXPECT_EQ(Frame(FrameKind::kManifest, v1::Manifest())[4], 1);
  EXPECT_EQ(Frame(FrameKind::kAblateChunk, v1::AblateChunk())[4], 3);
}

TEST(Frame, EveryDamagedByteIsSeen) {
  const std::string bytes = Frame(FrameKind::kScoreChunk, SomeChunk());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      const absl::Status status = Read(damaged);
      // A flipped version byte may look like a newer version.
      EXPECT_TRUE(absl::IsDataLoss(status) || (at == 5 && absl::IsFailedPrecondition(status)))
          << "byte " << at << " ^ " << mask << ": " << status;
    }
  }
}

TEST(Frame, EveryTruncationAndTrailingBytesAreSeen) {
  const std::string bytes = Frame(FrameKind::kScoreChunk, SomeChunk());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_TRUE(absl::IsDataLoss(Read(std::string_view(bytes).substr(0, size)))) << size;
  EXPECT_TRUE(absl::IsDataLoss(Read(bytes + '\0')));
  EXPECT_TRUE(absl::IsDataLoss(Read(bytes + bytes)));
}

TEST(Frame, ANewerVersionIsRefusedWithBothNumbers) {
  const std::string plain = SomeChunk().SerializeAsString();
  const absl::Status status = Read(Forge(2, kFormatVersion + 8, plain.size(), Compressed(plain)));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("version ", kFormatVersion + 8)),
                    HasSubstr(absl::StrCat("up to ", kFormatVersion))));
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 0, plain.size(), Compressed(plain)))));
}

TEST(Frame, AnotherKindIsRefused) {
  v1::AblateChunk chunk;
  const absl::Status status =
      Unframe(FrameKind::kAblateChunk, Frame(FrameKind::kScoreChunk, SomeChunk()), &chunk);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("kind 2"), HasSubstr("3 was")));
}

TEST(Frame, APayloadThatIsNotWhatItClaimsIsRefused) {
  const std::string plain = SomeChunk().SerializeAsString();
  const std::string packed = Compressed(plain);
  ASSERT_EQ(Read(Forge(2, 1, plain.size(), packed)), absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, plain.size() - 1, packed))));
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, plain.size() + 1, packed))));
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, plain.size(), plain))));  // not zstd
  EXPECT_TRUE(
      absl::IsDataLoss(Read(Forge(2, 1, 4, Compressed("\xff\xff\xff\xff")))));  // no message
}

// A frame of a few bytes must not make the reader take gigabytes.
TEST(Frame, ASizeThatTheBytesCannotHoldTakesNoMemory) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const std::string packed = Compressed("x");
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, kLargestPayload, packed))));
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, kLargestPayload - 1, packed))));
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, ~uint64_t{0}, packed))));
  EXPECT_TRUE(absl::IsDataLoss(Read(Forge(2, 1, 0, packed))));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100 * 1024) << "KiB";
}

}  // namespace
}  // namespace headcount::format
