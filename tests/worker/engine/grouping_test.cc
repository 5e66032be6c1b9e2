// What rows have in common is found, and only where it pays.

#include "worker/engine/grouping.h"

#include <deque>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

using ::testing::ElementsAre;

class GroupRowsTest : public ::testing::Test {
 protected:
  // `shared` tokens of the text `text`, then `own` tokens that nobody else has.
  void AddRow(int text, int shared, int own, int rule = 0) {
    std::vector<int32_t>& tokens = tokens_.emplace_back();
    for (int i = 0; i < shared; ++i) tokens.push_back(1000 * text + i);
    for (int i = 0; i < own; ++i) tokens.push_back(100000 + next_++);
    unit_.rows.push_back({.suffix = tokens, .rule = rule});
  }

  std::vector<InputGroup> Groups(const Sharing& sharing = {}) {
    std::vector<int> rows(unit_.rows.size());
    std::iota(rows.begin(), rows.end(), 0);
    return GroupRows(unit_, rows, sharing);
  }

  std::deque<std::vector<int32_t>> tokens_;
  Unit unit_;
  int32_t next_ = 0;
};

TEST_F(GroupRowsTest, EachTextsRowsShareItsPrefix) {
  AddRow(1, 40, 5);
  AddRow(2, 60, 7);
  AddRow(1, 40, 3);
  AddRow(2, 60, 2);
  const auto groups = Groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].trunk, 40);
  EXPECT_EQ(groups[0].tokens(), 48);
  EXPECT_THAT(groups[0].inputs[0].rows, ElementsAre(2));  // by length
  EXPECT_THAT(groups[0].inputs[1].rows, ElementsAre(0));
  EXPECT_EQ(groups[1].trunk, 60);
  EXPECT_EQ(groups[1].inputs[1].length, 67);
}

TEST_F(GroupRowsTest, TakesTheCutThatSavesMost) {
  // Three rows share 100 tokens, two of them 120: one group saves 200, two groups 120.
  AddRow(1, 100, 10);
  AddRow(1, 120, 10);
  AddRow(1, 120, 10);
  ASSERT_EQ(Groups().size(), 1u);
  EXPECT_EQ(Groups()[0].trunk, 100);
  // Three that share 20 tokens, two of them 500: the two alone save 500, all three 40.
  unit_.rows.clear();
  AddRow(2, 20, 10);
  AddRow(2, 500, 10);
  AddRow(2, 500, 10);
  const auto groups = Groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].trunk, 0);
  EXPECT_EQ(groups[1].trunk, 500);
}

TEST_F(GroupRowsTest, AShortCommonPrefixIsLeftAlone) {
  AddRow(1, static_cast<int>(kMinTrunkTokens) - 1, 10);
  AddRow(1, static_cast<int>(kMinTrunkTokens) - 1, 10);
  EXPECT_EQ(Groups().size(), 2u);
}

TEST_F(GroupRowsTest, EqualInputsAreOne) {
  AddRow(1, 30, 0, 0);
  AddRow(1, 30, 0, 1);
  auto groups = Groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].trunk, 0);
  ASSERT_EQ(groups[0].inputs.size(), 1u);
  EXPECT_THAT(groups[0].inputs[0].rows, ElementsAre(0, 1));
  EXPECT_EQ(Groups({.rules = false}).size(), 2u);
}

TEST_F(GroupRowsTest, WhatIsScoredStaysOutOfTheTrunk) {
  AddRow(1, 40, 1);
  AddRow(1, 40, 1);
  const std::vector<int32_t> targets = {0, 0, 0, 0};
  unit_.rows[1].targets = targets;
  unit_.rows[1].scored = 4;
  EXPECT_EQ(Groups()[0].trunk, 37);
  // And never all of an input: one is the other's prefix.
  unit_.rows.clear();
  AddRow(2, 40, 0);
  AddRow(2, 40, 10);
  EXPECT_EQ(Groups()[0].trunk, 39);
}

TEST_F(GroupRowsTest, TheUnitsPrefixCounts) {
  const std::vector<int32_t> prefix(30, 7);
  unit_.prefix = prefix;
  AddRow(1, 0, 4);
  AddRow(1, 0, 5);
  ASSERT_EQ(Groups().size(), 1u);
  EXPECT_EQ(Groups()[0].trunk, 30);
  EXPECT_EQ(Groups({.prefixes = false}).size(), 2u);
}

TEST_F(GroupRowsTest, ALayoutCountsRowsInTheBatch) {
  for (int i = 0; i < 3; ++i) AddRow(1, 40, 5 - i);
  const std::vector<int> batch = {2, 0};
  const Layout layout = LayOut(GroupRows(unit_, batch, {}), batch);
  EXPECT_THAT(layout.trunks, ElementsAre(40));
  ASSERT_EQ(layout.branches.size(), 2u);
  EXPECT_THAT(layout.branches[0].rows, ElementsAre(0));
  EXPECT_EQ(layout.branches[0].length, 3);
  EXPECT_THAT(layout.branches[1].rows, ElementsAre(1));
  EXPECT_EQ(layout.tokens(), 48);
  const Row* const rows[] = {&unit_.rows[2], &unit_.rows[0]};
  const std::vector<int32_t> ids = TokenIds(layout, rows, {});
  ASSERT_EQ(ids.size(), 48u);
  EXPECT_EQ(ids[39], tokens_[0][39]);  // the trunk's last
  EXPECT_EQ(ids[40], tokens_[2][40]);  // the first row's own first
  EXPECT_EQ(ids[47], tokens_[0][44]);
}

}  // namespace
}  // namespace headcount::engine
