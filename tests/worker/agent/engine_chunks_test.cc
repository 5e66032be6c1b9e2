// The real engine behind the worker's own conversions, on a tiny checkpoint: what the agent hands
// over is what the engine takes, and what it gives back is what is stored. Repeats are byte-equal.

#include <gtest/gtest.h>

#include <cmath>

#include "common/catalog/measurements.h"
#include "common/format/frame.h"
#include "worker/agent/chunk_builder.h"
#include "worker/agent/unit_builder.h"
#include "worker/engine/engine.h"
#include "worker/eval/manifest.h"

namespace headcount::agent {
namespace {

// Documents of two choices, each a group of its own, as PIQA's.
std::shared_ptr<SampleRange> Samples() {
  std::vector<eval::Document> documents;
  for (int i = 0; i < 3; ++i) {
    eval::Document document;
    document.task = "quiz";
    document.row = i;
    document.context = "Question: number " + std::to_string(i) + "\nAnswer:";
    document.continuations = {" this one", " the other"};
    document.choice_lengths = {8, 9};
    document.gold = 0;
    documents.push_back(document);
  }
  eval::ManifestOptions options;
  options.max_tokens = 512;
  const auto manifest = eval::BuildManifest(
      documents,
      [](std::string_view text) -> absl::StatusOr<std::vector<int32_t>> {
        return std::vector<int32_t>(text.begin(), text.end());
      },
      options);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  auto range = std::make_shared<SampleRange>();
  for (const auto& group : manifest->groups()) {
    range->prefixes[group.group()].assign(group.prefix().begin(), group.prefix().end());
  }
  range->samples.assign(manifest->samples().begin(), manifest->samples().end());
  return range;
}

class EngineChunks : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = engine::Engine::Load("tests/golden/tiny-llama", engine::DType::kFloat32, {},
                                       {.threads = 1});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::string Run(int rules) {
    v1::UnitRange range;
    range.set_samples(6);
    range.set_rules(rules);
    std::vector<v1::ResolvedRule> resolved(2);
    resolved[0].set_none(true);
    resolved[1].set_index(1);
    resolved[1].mutable_threshold()->set_score("output_norm_ln");
    resolved[1].mutable_threshold()->set_value(0.9f);
    const auto built = BuildUnit(range, Samples(), resolved, engine_->config());
    EXPECT_TRUE(built.ok()) << built.status();
    const auto result = engine_->Run(built->unit, cancel_, nullptr);
    EXPECT_TRUE(result.ok()) << result.status();
    const auto chunk = rules == 0 ? BuildScoreChunk(range, *result, engine_->config(), {})
                                  : BuildAblateChunk(range, *result, engine_->config(), {});
    EXPECT_TRUE(chunk.ok()) << chunk.status();
    return *chunk;
  }

  std::unique_ptr<engine::Engine> engine_;
  engine::CancelFlag cancel_ = false;
};

TEST_F(EngineChunks, HoldEverySampleAndRepeatExactly) {
  const std::string score_bytes = Run(0);
  EXPECT_EQ(score_bytes, Run(0));
  v1::ScoreChunk score;
  ASSERT_TRUE(format::Unframe(format::FrameKind::kScoreChunk, score_bytes, &score).ok());
  ASSERT_EQ(score.results_size(), 6);
  const size_t heads = static_cast<size_t>(score.layers()) * score.heads();
  for (const auto& slab : score.slabs()) EXPECT_EQ(slab.values().size(), 6 * heads * 4);
  EXPECT_EQ(score.head_sums().first_count(), 6);
  EXPECT_EQ(score.head_sums().first_count() + score.head_sums().rest_count(), score.run().tokens());
  for (const auto& result : score.results()) {
    EXPECT_FALSE(result.non_finite());
    ASSERT_EQ(result.log_likelihoods_size(), 1);
    EXPECT_LT(result.log_likelihoods(0), 0);
  }

  const std::string ablate_bytes = Run(2);
  EXPECT_EQ(ablate_bytes, Run(2));
  v1::AblateChunk ablate;
  ASSERT_TRUE(format::Unframe(format::FrameKind::kAblateChunk, ablate_bytes, &ablate).ok());
  ASSERT_EQ(ablate.results_size(), 12);
  int changed = 0;
  for (int i = 0; i < 6; ++i) {
    // The rule `none` is the score stage's own run, up to rounding.
    const float base = score.results(i).log_likelihoods(0);
    EXPECT_NEAR(ablate.results(i).log_likelihoods(0), base, 2e-5 * std::abs(base));
    EXPECT_EQ(ablate.results(i).mask(), std::string((heads + 7) / 8, '\0'));
    changed += std::abs(ablate.results(6 + i).log_likelihoods(0) - base) > 1e-3;
    EXPECT_NE(ablate.results(6 + i).mask(), ablate.results(i).mask());
  }
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace headcount::agent
