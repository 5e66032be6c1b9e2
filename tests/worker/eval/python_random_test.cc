// Draws against CPython 3.11's own: the values in this file were printed by it.

#include "worker/eval/python_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "nlohmann/json.hpp"
#include "tests/worker/eval/shared_data.h"

namespace headcount::eval {
namespace {

using ::testing::ElementsAre;
using Indices = std::vector<size_t>;

TEST(PythonRandom, GivesPythonsWords) {
  PythonRandom random(1234);
  EXPECT_EQ(random.Next(), 4150886329u);
  EXPECT_EQ(random.Next(), 3342196574u);
  EXPECT_EQ(random.Next(), 1892932127u);
  for (int i = 0; i < 700; ++i) random.Next();
  EXPECT_EQ(random.Next(), 1099085600u);
  EXPECT_EQ(PythonRandom(30064771077).Next(), 1425139611u);
  EXPECT_EQ(PythonRandom(0).Next(), 3626764237u);
}

// Populations on both sides of where Python changes from a list to a set: 21 for five or fewer,
// 85 for six to twenty-one.
TEST(PythonRandom, SamplesAsPythonDoes) {
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(3, 3), ElementsAre(1, 0, 2));
    EXPECT_THAT(random.Sample(3, 3), ElementsAre(0, 2, 1));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(21, 5), ElementsAre(14, 3, 0, 2, 1));
    EXPECT_THAT(random.Sample(21, 5), ElementsAre(2, 3, 11, 7, 0));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(22, 5), ElementsAre(14, 3, 0, 2, 18));
    EXPECT_THAT(random.Sample(22, 5), ElementsAre(1, 21, 2, 3, 11));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(85, 6), ElementsAre(56, 14, 0, 11, 74, 4));
    EXPECT_THAT(random.Sample(85, 6), ElementsAre(10, 12, 45, 30, 2, 3));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(86, 6), ElementsAre(56, 14, 0, 11, 74, 4));
    EXPECT_THAT(random.Sample(86, 6), ElementsAre(85, 10, 12, 45, 30, 2));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(1000, 1), ElementsAre(989));
    EXPECT_THAT(random.Sample(1000, 1), ElementsAre(796));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(277, 22),
                ElementsAre(225, 59, 3, 46, 17, 42, 50, 181, 121, 8, 15, 267, 177, 247, 237, 76,
                            273, 93, 58, 7, 249, 127));
    EXPECT_THAT(random.Sample(277, 22),
                ElementsAre(33, 238, 35, 45, 263, 23, 138, 32, 154, 246, 181, 136, 127, 102, 232, 9,
                            260, 36, 2, 170, 73, 242));
  }
  {
    PythonRandom random(1234);
    EXPECT_THAT(random.Sample(278, 22),
                ElementsAre(225, 59, 3, 46, 17, 42, 50, 181, 121, 8, 15, 177, 247, 237, 76, 93, 58,
                            7, 257, 249, 127, 33));
    EXPECT_THAT(random.Sample(278, 22),
                ElementsAre(277, 238, 35, 45, 263, 23, 138, 32, 154, 246, 181, 136, 127, 102, 232,
                            271, 9, 260, 36, 2, 170, 73));
  }
}

TEST(PythonRandom, DrawsWhatTheHarnessDrew) {
  const std::string path = SharedPath("data/lm_eval/scoring.json");
  HC_SKIP_UNLESS_EXISTS(path);
  const auto cases = nlohmann::json::parse(*ReadFile(path))["rng"];
  const uint64_t seed = cases["seed"];
  PythonRandom words(seed);
  for (const auto& word : cases["first_32bit_words"]) EXPECT_EQ(words.Next(), word);
  const auto expect = [&](const char* name, size_t population, size_t count) {
    PythonRandom random(seed);
    for (const auto& drawn : cases[name]) {
      EXPECT_EQ(random.Sample(population, count), drawn.get<Indices>()) << name;
    }
  };
  expect("gsm8k_train_7473_k5_first_docs", 7473, 5);
  expect("pool_2558_k6_first_docs", 2558, 6);
  expect("winogrande_xl_40398_k6_first_docs", 40398, 6);
  expect("small_pool_20_k5", 20, 5);
}

}  // namespace
}  // namespace headcount::eval
