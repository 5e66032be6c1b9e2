// Random draws against the published check values.

#include "worker/engine/intervene/philox.h"

#include "common/base/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

TEST(Philox, KnownAnswer) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ::testing::ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
}

TEST(Philox, DrawsOfSamples) {
  const auto word = [](uint64_t seed, const char* id, int layer, int head) {
    return static_cast<uint32_t>(RandomDraw(RandomKey(seed, id), layer, head) * 0x1p32);
  };
  EXPECT_EQ(word(0, "piqa/0/0", 0, 0), 0xc19cfb4b);
  EXPECT_EQ(word(0, "piqa/0/1", 0, 0), 0xab6928b9);
  EXPECT_EQ(word(1, "piqa/0/0", 29, 8), 0x4fe23b10);
  EXPECT_EQ(word(1234, "mmlu_abstract_algebra/0/0", 3, 5), 0x2d70d935);
}

TEST(Philox, DrawsLieInTheUnitInterval) {
  double sum = 0;
  for (int head = 0; head < 10000; ++head) {
    const double u = RandomDraw(17, 3, head);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace headcount::engine
