// Histories part where masks differ, stay together where they do not, and make pieces that keep the
// budget.

#include "worker/engine/split.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;

constexpr int kNone = Layout::kNoTrunk;
constexpr int64_t kNoLimit = 1 << 20;

// One trunk of 100 tokens with three branches of 10, 20 and 30, the last for two rows.
Layout Shared() {
  Layout layout;
  layout.trunks = {100};
  layout.branches = {{10, 0, {0}}, {20, 0, {1}}, {30, 0, {2, 3}}};
  return layout;
}

std::vector<Piece> SplitBy(const Layout& layout, const std::vector<uint8_t>& masks,
                           int64_t max_tokens = kNoLimit) {
  return Split(layout, masks, 1, max_tokens);
}

TEST(Split, EqualMasksChangeNothing) {
  const auto pieces = SplitBy(Shared(), {1, 1, 1, 1});
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_THAT(pieces[0].layout.trunks, ElementsAre(100));
  EXPECT_THAT(pieces[0].branch_from, ElementsAre(0, 1, 2));
  EXPECT_THAT(pieces[0].layout.branches[2].rows, ElementsAre(2, 3));
}

TEST(Split, ATrunkIsContinuedOnceForEachMask) {
  const auto pieces = SplitBy(Shared(), {0, 1, 0, 1});
  ASSERT_EQ(pieces.size(), 1u);
  const Layout& layout = pieces[0].layout;
  EXPECT_THAT(layout.trunks, ElementsAre(100, 100));
  EXPECT_THAT(pieces[0].trunk_from, ElementsAre(0, 0));
  // The last branch's rows have parted too.
  EXPECT_THAT(pieces[0].branch_from, ElementsAre(0, 2, 1, 2));
  EXPECT_EQ(layout.branches[0].trunk, 0);
  EXPECT_EQ(layout.branches[1].trunk, 0);
  EXPECT_THAT(layout.branches[1].rows, ElementsAre(2));
  EXPECT_EQ(layout.branches[2].trunk, 1);
  EXPECT_THAT(layout.branches[3].rows, ElementsAre(3));
  EXPECT_EQ(layout.tokens(), 200 + 10 + 30 + 20 + 30);
}

TEST(Split, MasksCountInAllTheirHeads) {
  Layout layout;
  layout.branches = {{5, kNone, {0, 1}}};
  EXPECT_EQ(Split(layout, std::vector<uint8_t>{1, 0, 1, 1}, 2, kNoLimit)[0].layout.branches.size(),
            2u);
  EXPECT_EQ(Split(layout, std::vector<uint8_t>{1, 0, 1, 0}, 2, kNoLimit)[0].layout.branches.size(),
            1u);
}

TEST(Split, BranchesWithoutATrunkStayApart) {
  Layout layout;
  layout.trunks = {50};
  layout.branches = {{5, 0, {0}}, {6, kNone, {1}}, {7, kNone, {2, 3}}};
  const auto pieces = SplitBy(layout, {1, 1, 1, 0});
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_THAT(pieces[0].layout.trunks, ElementsAre(50));
  EXPECT_THAT(pieces[0].branch_from, ElementsAre(0, 1, 2, 2));
  EXPECT_EQ(pieces[0].layout.branches[1].trunk, kNone);
}

TEST(Split, PiecesKeepTheBudgetAndAreAboutEqual) {
  Layout layout;
  layout.branches = {{30, kNone, {0, 1, 2, 3, 4, 5}}};
  const auto pieces = Split(layout, std::vector<uint8_t>{0, 1, 2, 3, 4, 5}, 1, 130);
  ASSERT_EQ(pieces.size(), 2u);  // three and three, not four and two
  EXPECT_EQ(pieces[0].layout.tokens(), 90);
  EXPECT_EQ(pieces[1].layout.tokens(), 90);
  // A trunk stays with its branches even where it is larger than the budget.
  const auto whole = SplitBy(Shared(), {0, 1, 0, 0}, 50);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[0].layout.tokens(), 140);
  EXPECT_EQ(whole[1].layout.tokens(), 120);
}

TEST(IsShared, UntilEveryRowIsAlone) {
  EXPECT_TRUE(IsShared(Shared()));
  Layout layout;
  layout.trunks = {50, 50};
  layout.branches = {{5, 0, {0}}, {5, 1, {1}}, {6, kNone, {2}}};
  EXPECT_FALSE(IsShared(layout));
  layout.branches[2].rows.push_back(3);
  EXPECT_TRUE(IsShared(layout));
}

}  // namespace
}  // namespace headcount::engine
