// How manifests are cut into units.

#include "server/plan/cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "common/base/errors.h"
#include "tests/server/plan/manifests.h"

namespace headcount::plan {
namespace {

using testing::ElementsAre;

// (first sample, samples, documents)
using Block = std::tuple<int64_t, int, int>;

std::vector<Block> Cut(const v1::Manifest& manifest, int limit) {
  const auto blocks = CutSamples(manifest, limit);
  EXPECT_TRUE(blocks.ok()) << blocks.status();
  std::vector<Block> out;
  if (!blocks.ok()) return out;
  for (const v1::SampleBlock& block : *blocks) {
    out.emplace_back(block.first_sample(), block.samples(), block.documents());
  }
  return out;
}

TEST(CutterTest, FortyPiqaQuestionsAreThreeUnits) {
  EXPECT_THAT(Cut(Pairs(40), 32),
              ElementsAre(Block{0, 32, 16}, Block{32, 32, 16}, Block{64, 16, 8}));
}

TEST(CutterTest, WholeGroupsAreNotSplitToFillABlock) {
  // 3 + 3 fit into 7, the next 3 would make 9.
  EXPECT_THAT(Cut(MakeManifest({{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}), 7),
              ElementsAre(Block{0, 6, 6}, Block{6, 3, 3}));
}

TEST(CutterTest, ALargeGroupGetsBlocksOfItsOwn) {
  // MMLU: a subject of 5 questions between two of 1, four samples a unit.
  EXPECT_THAT(Cut(MakeManifest({{1}, {1, 1, 1, 1, 1}, {1}}), 4),
              ElementsAre(Block{0, 1, 1}, Block{1, 4, 4}, Block{5, 1, 1}, Block{6, 1, 1}));
}

TEST(CutterTest, DocumentsStayWholeInALargeGroup) {
  EXPECT_THAT(Cut(MakeManifest({{2, 2, 3, 1}}), 5), ElementsAre(Block{0, 4, 2}, Block{4, 4, 2}));
  EXPECT_THAT(Cut(MakeManifest({{2, 2, 2}}), 3),
              ElementsAre(Block{0, 2, 1}, Block{2, 2, 1}, Block{4, 2, 1}));
}

TEST(CutterTest, ADocumentLargerThanAUnitIsNamed) {
  const auto blocks = CutSamples(MakeManifest({{1, 4}}), 3);
  EXPECT_TRUE(absl::IsFailedPrecondition(blocks.status())) << blocks.status();
  EXPECT_THAT(std::string(blocks.status().message()), testing::HasSubstr("pairs/1 has 4 samples"));
  EXPECT_EQ(ReasonOf(blocks.status()), "DOCUMENT_TOO_LARGE");
}

TEST(CutterTest, AnEmptyManifestIsRefused) {
  EXPECT_TRUE(absl::IsFailedPrecondition(CutSamples({}, 32).status()));
}

TEST(CutterTest, EveryLimitCoversEverySampleOnceAndSplitsNoDocument) {
  const v1::Manifest manifest = MakeManifest({{2, 1, 3}, {1}, {2, 2, 2, 2, 2}, {3}, {1, 1, 1, 1}});
  for (int limit = 3; limit <= 30; ++limit) {
    SCOPED_TRACE(limit);
    int64_t next = 0;
    int documents = 0;
    for (const auto& [first, samples, count] : Cut(manifest, limit)) {
      EXPECT_EQ(first, next);
      EXPECT_GE(samples, 1);
      EXPECT_LE(samples, limit);
      next += samples;
      documents += count;
      if (next < manifest.samples_size()) {
        EXPECT_NE(manifest.samples(next).document(), manifest.samples(next - 1).document());
      }
    }
    EXPECT_EQ(next, manifest.samples_size());
    EXPECT_EQ(documents, manifest.documents_size());
  }
}

TEST(CutterTest, UnitsCountRuleBlocksBySampleBlocks) {
  // 96 rules by four over three blocks: the example of the design.
  const auto plan = CutStage(Pairs(40), 32, std::vector<v1::ResolvedRule>(96), 4);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(UnitCount(*plan), 72);
  EXPECT_EQ(RowCount(*plan), 96 * 80);
  EXPECT_EQ(plan->documents(), 40);
  EXPECT_EQ(plan->rules(95).index(), 95);

  const auto last_of_first_rules = RangeOfUnit(*plan, 2);
  ASSERT_TRUE(last_of_first_rules.ok());
  EXPECT_EQ(last_of_first_rules->first_sample(), 64);
  EXPECT_EQ(last_of_first_rules->samples(), 16);
  EXPECT_EQ(last_of_first_rules->first_rule(), 0);
  const auto next_rules = RangeOfUnit(*plan, 3);
  EXPECT_EQ(next_rules->unit(), 3);
  EXPECT_EQ(next_rules->first_sample(), 0);
  EXPECT_EQ(next_rules->first_rule(), 4);
  EXPECT_EQ(next_rules->rules(), 4);
  EXPECT_TRUE(absl::IsOutOfRange(RangeOfUnit(*plan, 72).status()));
  EXPECT_TRUE(absl::IsOutOfRange(RangeOfUnit(*plan, -1).status()));
}

TEST(CutterTest, TheLastRuleBlockMayBeShort) {
  const auto plan = CutStage(Pairs(1), 32, std::vector<v1::ResolvedRule>(7), 4);
  EXPECT_EQ(UnitCount(*plan), 2);
  EXPECT_EQ(RangeOfUnit(*plan, 1)->first_rule(), 4);
  EXPECT_EQ(RangeOfUnit(*plan, 1)->rules(), 3);
}

TEST(CutterTest, AStageWithoutRulesHasOneUnitABlock) {
  const auto plan = CutStage(Pairs(40), 32, {}, 0);
  EXPECT_EQ(UnitCount(*plan), 3);
  EXPECT_EQ(RowCount(*plan), 80);
  EXPECT_EQ(RangeOfUnit(*plan, 2)->rules(), 0);
}

TEST(CutterTest, PrepareIsOneUnitWithoutRows) {
  EXPECT_EQ(UnitCount(PreparePlan()), 1);
  EXPECT_EQ(RowCount(PreparePlan()), 0);
}

}  // namespace
}  // namespace headcount::plan
