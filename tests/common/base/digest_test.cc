// Digests against published vectors: FIPS 180-2 (SHA-256), RFC 3720 B.4 (CRC-32C); the random keys
// through an independent Philox4x32-10 to the draws that the definition of the random score lists.

#include "common/base/digest.h"

#include <gtest/gtest.h>

#include <array>

namespace headcount {
namespace {

TEST(Digest, Sha256OfThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(Sha256("abc")[0], 0xba);
  EXPECT_EQ(Sha256("abc")[31], 0xad);
}

TEST(Digest, Crc32cOfThePublishedVectors) {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
}

TEST(Digest, Crc32cGoesOnFromAnEarlierResult) {
  const std::string_view text = "123456789";
  for (size_t at = 0; at <= text.size(); ++at)
    EXPECT_EQ(Crc32c(text.substr(at), Crc32c(text.substr(0, at))), 0xe3069283u) << at;
}

// Philox4x32-10 of Salmon et al. 2011, written down from the paper.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

TEST(Digest, RandomKeysGiveTheDrawsOfTheDefinition) {
  const std::array<uint32_t, 4> zero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  ASSERT_EQ(Philox({0, 0, 0, 0}, 0), zero);
  EXPECT_EQ(Philox({0, 0, 0, 0}, RandomKey(0, "piqa/0/0"))[0], 0xc19cfb4bu);
  EXPECT_EQ(Philox({0, 0, 0, 0}, RandomKey(0, "piqa/0/1"))[0], 0xab6928b9u);
  EXPECT_EQ(Philox({29, 8, 0, 0}, RandomKey(1, "piqa/0/0"))[0], 0x4fe23b10u);
  EXPECT_EQ(Philox({3, 5, 0, 0}, RandomKey(1234, "mmlu_abstract_algebra/0/0"))[0], 0x2d70d935u);
}

TEST(Digest, RandomKeysUseAllOfTheSeed) {
  EXPECT_NE(RandomKey(0, "a"), RandomKey(uint64_t{1} << 63, "a"));
  EXPECT_NE(RandomKey(1, "a"), RandomKey(256, "a"));
}

}  // namespace
}  // namespace headcount
