// Texts that are scored: their windows put together, perplexities as lm-evaluation-harness weighs
// them, and curves of them.

#include "server/results/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/base/errors.h"
#include "server/results/curves.h"
#include "server/results/unit_counts.h"
#include "tests/server/results/fake_job.h"

namespace headcount::results {
namespace {

constexpr int kHeads = 4;

// Two texts, of two windows and of one; 3 and 5 words, 10 and 30 bytes.
v1::Manifest Texts(const std::string& output_type) {
  v1::Manifest manifest;
  manifest.set_output_type(output_type);
  manifest.add_groups();
  const bool rolling = output_type == "loglikelihood_rolling";
  if (rolling) {
    for (const char* metric : {"word_perplexity", "byte_perplexity", "bits_per_byte"}) {
      manifest.add_metrics(metric);
    }
  } else {
    for (const char* metric : {"perplexity", "acc"}) manifest.add_metrics(metric);
  }
  for (int d = 0; d < 2; ++d) {
    v1::ManifestDocument& document = *manifest.add_documents();
    document.set_id("texts/" + std::to_string(d));
    document.set_subtask("texts");
    document.add_choice_lengths(9);
    document.set_words(d == 0 ? 3 : 5);
    document.set_bytes(d == 0 ? 10 : 30);
    for (int w = 0; w < (rolling && d == 0 ? 2 : 1); ++w) {
      v1::ManifestSample& sample = *manifest.add_samples();
      sample.set_document(d);
      sample.set_request(w);
      sample.add_choices(0);
      sample.set_scored(1);
      sample.add_targets(1);
      sample.add_suffix(1);
    }
  }
  return manifest;
}

v1::SampleResult Row(float log_likelihood, bool greedy, bool mask) {
  v1::SampleResult row;
  row.add_log_likelihoods(log_likelihood);
  row.add_greedy(greedy);
  if (mask) row.set_mask(std::string(1, 1));
  return row;
}

// An ablate job: the baseline, then one rule of one head.
struct Job {
  FakeJob store;
  v1::Manifest manifest;

  Job(const std::string& output_type, const std::vector<v1::SampleResult>& baseline,
      const std::vector<v1::SampleResult>& rule)
      : manifest(Texts(output_type)) {
    store.job().mutable_ablate();
    v1::StagePlan plan;
    plan.set_rules_per_unit(2);
    plan.add_rules()->set_none(true);
    plan.add_rules()->set_label("one head");
    v1::SampleBlock& block = *plan.add_sample_blocks();
    block.set_samples(manifest.samples_size());
    block.set_documents(2);
    store.Plan(store::Stage::kAblate, plan, manifest);
    v1::AblateChunk chunk;
    chunk.set_samples(manifest.samples_size());
    chunk.set_rules(2);
    chunk.set_layers(1);
    chunk.set_heads(kHeads);
    for (const auto* rows : {&baseline, &rule}) {
      for (const v1::SampleResult& row : *rows) *chunk.add_results() = row;
    }
    for (int i = 0; i < manifest.samples_size(); ++i) {
      chunk.mutable_results(i)->set_mask(std::string(1, 0));
    }
    chunk.set_zeroed(std::string(2 * kHeads * 4, 0));
    store.Store(0, chunk);
    counts = CountUnit(manifest, block, chunk, 1).value();
  }

  absl::StatusOr<v1::Curves> Curves(const std::string& metric, int folds = 0) {
    v1::GetCurvesRequest request;
    request.set_job(FakeJob::kName);
    request.set_metric(metric);
    request.set_cross_fit(folds);
    request.set_bootstrap_draws(10);
    return GetCurves(store, store.artifacts(), request);
  }

  v1::UnitCounts counts;
};

TEST(Perplexity, SumsTheWindowsOfATextAndWeighsTexts) {
  Job job("loglikelihood_rolling", {Row(-6, true, true), Row(-3, true, true), Row(-15, true, true)},
          {Row(-7, true, true), Row(-4, true, true), Row(-21, true, true)});
  const auto words = job.Curves("");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->metric(), "word_perplexity");
  EXPECT_NEAR(words->baseline().perplexity(), std::exp(24. / 8), 1e-9);
  const v1::CurvePoint& point = words->curves(0).points(1);
  EXPECT_NEAR(point.perplexity(), std::exp(32. / 8), 1e-9);
  EXPECT_NEAR(point.gold_log_likelihood_change(), (-2. - 6.) / 2, 1e-9);
  EXPECT_NEAR(point.share_zeroed(), .25, 1e-9);
  for (const double none : {point.accuracy(), point.difference(), point.mcnemar_p(),
                            words->curves(0).auc(), words->curves(0).largest_share()}) {
    EXPECT_TRUE(std::isnan(none));
  }
  EXPECT_EQ(words->bootstrap_draws(), 0);
  EXPECT_NEAR(job.Curves("byte_perplexity")->baseline().perplexity(), std::exp(24. / 40), 1e-9);
  EXPECT_NEAR(job.Curves("bits_per_byte")->baseline().perplexity(), 24. / 40 / std::log(2), 1e-9);
  EXPECT_EQ(FieldOf(job.Curves("", 2).status()), "cross_fit");
  EXPECT_EQ(job.counts.rules(0).documents(), 0) << "nothing is right or wrong";
}

TEST(Perplexity, AContinuationIsRightWhereTheModelWouldWriteIt) {
  Job job("loglikelihood", {Row(-2, true, true), Row(-4, false, true)},
          {Row(-3, false, true), Row(-5, false, true)});
  const auto curves = job.Curves("acc");
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_EQ(curves->baseline().accuracy(), .5);
  EXPECT_EQ(curves->curves(0).points(1).accuracy(), 0);
  EXPECT_EQ(curves->curves(0).points(1).flips_to_wrong(), 1);
  EXPECT_TRUE(std::isnan(curves->baseline().perplexity()));
  EXPECT_NEAR(job.Curves("perplexity")->baseline().perplexity(), std::exp(3.), 1e-9);
  EXPECT_EQ(job.counts.rules(0).correct(), 1);
}

}  // namespace
}  // namespace headcount::results
