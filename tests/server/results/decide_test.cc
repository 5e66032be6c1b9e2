// Decisions against lm-evaluation-harness's own for the same log-likelihoods, ties among them.

#include "server/results/decide.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace headcount::results {
namespace {

v1::ManifestDocument Document(int gold, const std::vector<int>& lengths) {
  v1::ManifestDocument document;
  document.set_gold(gold);
  for (const int length : lengths) document.add_choice_lengths(length);
  return document;
}

TEST(Decide, LikeTheHarness) {
  const struct {
    std::vector<float> lls;
    std::vector<int> lengths;
    int gold;
    bool acc, acc_norm;
  } cases[] = {
      {{-10, -12}, {164, 166}, 0, true, true},
      {{-12, -10}, {164, 166}, 0, false, false},
      {{-50, -50}, {30, 34}, 1, false, true},  // a tie goes to the first; per code point it is none
      {{-5, -4}, {1, 1}, 1, true, true},
      {{-3, -3}, {1, 1}, 1, false, false},
      {{-2, -1, -3, -4}, {1, 1, 1, 1}, 1, true, true},
      {{-1, -1, -1, -1}, {1, 1, 1, 1}, 1, false, false},
      {{-9, -9, -1, -3}, {1, 1, 1, 1}, 2, true, true},
  };
  for (const auto& c : cases) {
    const Decision decision = Decide(Document(c.gold, c.lengths), c.lls, true);
    EXPECT_TRUE(decision.finite);
    EXPECT_EQ(decision.correct, c.acc);
    EXPECT_EQ(decision.correct_norm, c.acc_norm);
  }
}

TEST(Decide, TiesGoToTheFirst) {
  const float lls[] = {-3, -1, -1};
  EXPECT_EQ(Decide(Document(0, {1, 1, 1}), lls, true).prediction, 1);
}

TEST(Decide, NotFiniteIsWrong) {
  const float nan[] = {-1, std::numeric_limits<float>::quiet_NaN()};
  const Decision decision = Decide(Document(0, {1, 1}), nan, true);
  EXPECT_FALSE(decision.finite);
  EXPECT_FALSE(decision.correct);
  EXPECT_EQ(decision.prediction, -1);
  // The run says so although the log-likelihoods look fine.
  const float fine[] = {-1, -2};
  EXPECT_FALSE(Decide(Document(0, {1, 1}), fine, false).correct);
}

TEST(Decide, WithoutGoldOrChoices) {
  const float lls[] = {-1, -2};
  const Decision no_gold = Decide(Document(-1, {1, 1}), lls, true);
  EXPECT_EQ(no_gold.prediction, 0);
  EXPECT_FALSE(no_gold.correct);
  const Decision nothing = Decide(Document(-1, {}), {}, true);
  EXPECT_TRUE(nothing.finite);
  EXPECT_EQ(nothing.prediction, -1);
  EXPECT_FALSE(nothing.correct);
}

TEST(Decide, AnEmptyChoiceNeverWinsByLength) {
  const float lls[] = {-1, -20};
  EXPECT_EQ(Decide(Document(0, {0, 10}), lls, true).prediction_norm, 1);
}

}  // namespace
}  // namespace headcount::results
