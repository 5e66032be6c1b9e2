// Two jobs side by side, against the same numbers computed here from the drawn measurements.

#include "server/results/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "server/results/distances.h"
#include "tests/server/results/two_jobs.h"

namespace headcount::results {
namespace {

v1::CompareScoresRequest Request(const std::string& score, const char* second = FakeJob::kName) {
  v1::CompareScoresRequest request;
  request.set_job_a(FakeJob::kName);
  request.set_job_b(second);
  request.add_scores(score);
  request.set_fraction(.25);
  return request;
}

// One measurement's values of a head, in sample order.
std::vector<float> Column(const SampleJob& job, const std::string& measurement, int head) {
  std::vector<float> column;
  for (const v1::ScoreChunk& chunk : job.score_chunks) {
    for (const v1::Slab& slab : chunk.slabs()) {
      if (slab.measurement() != measurement) continue;
      std::vector<float> values(slab.values().size() / sizeof(float));
      std::memcpy(values.data(), slab.values().data(), slab.values().size());
      for (size_t i = static_cast<size_t>(head); i < values.size(); i += kLayers * kHeads) {
        column.push_back(values[i]);
      }
    }
  }
  return column;
}

std::vector<float> Sorted(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Compare, AJobWithItselfDiffersInNothing) {
  const auto job = SampleJobMaker::Sweep();
  v1::CompareScoresRequest request = Request("output_norm_ln");
  request.set_fraction(.6);  // so that some heads are inactive in most samples
  const v1::Comparison same = CompareScores(job->store, job->store.artifacts(), request).value();
  EXPECT_TRUE(same.same_inputs());
  EXPECT_TRUE(same.same_shape());
  EXPECT_TRUE(same.warnings().empty());
  ASSERT_EQ(same.scores_size(), 1);
  const v1::ScoreComparison& score = same.scores(0);
  EXPECT_EQ(score.threshold_a(), score.threshold_b());
  EXPECT_NEAR(score.spearman(), 1, 1e-12);
  EXPECT_EQ(score.inactive_overlap(), 1);
  ASSERT_EQ(score.wasserstein_size(), kLayers * kHeads);
  ASSERT_EQ(score.to_inactive_size(), kLayers * kHeads);
  for (int h = 0; h < kLayers * kHeads; ++h) {
    EXPECT_EQ(score.wasserstein(h), 0);
    EXPECT_EQ(score.kolmogorov_smirnov(h), 0);
    EXPECT_EQ(score.to_inactive(h), 0);
    EXPECT_EQ(score.to_active(h), 0);
  }
}

TEST(Compare, TwoScoresHeadByHead) {
  const auto job = SampleJobMaker::Sweep();
  v1::CompareScoresRequest request = Request("entropy");
  request.set_score_b("first_token_weight");
  const v1::Comparison comparison =
      CompareScores(job->store, job->store.artifacts(), request).value();
  const v1::ScoreComparison& score = comparison.scores(0);
  EXPECT_EQ(score.score_a(), "entropy");
  EXPECT_EQ(score.score_b(), "first_token_weight");
  for (int h = 0; h < kLayers * kHeads; ++h) {
    const std::vector<float> a = Column(*job, "entropy", h);
    const std::vector<float> b = Column(*job, "first_weight", h);
    EXPECT_NEAR(score.wasserstein(h), Wasserstein1(Sorted(a), Sorted(b)), 1e-9);
    EXPECT_NEAR(score.kolmogorov_smirnov(h), KolmogorovSmirnov(Sorted(a), Sorted(b)), 1e-12);
    int to_inactive = 0;
    int to_active = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool before = a[i] < score.threshold_a();  // entropy: inactive below
      const bool after = b[i] > score.threshold_b();   // first token's weight: above
      to_inactive += !before && after;
      to_active += before && !after;
    }
    EXPECT_NEAR(score.to_inactive(h), to_inactive / static_cast<double>(a.size()), 1e-12);
    EXPECT_NEAR(score.to_active(h), to_active / static_cast<double>(a.size()), 1e-12);
  }
  ASSERT_EQ(score.layers_size(), kLayers);
  std::vector<float> all_a, all_b;
  for (int h = 0; h < kHeads; ++h) {
    for (const float x : Column(*job, "entropy", kHeads + h)) all_a.push_back(x);
    for (const float x : Column(*job, "first_weight", kHeads + h)) all_b.push_back(x);
  }
  EXPECT_EQ(score.layers(1).layer_b(), 1);
  EXPECT_NEAR(score.layers(1).wasserstein(), Wasserstein1(Sorted(all_a), Sorted(all_b)), 1e-9);
  // A quarter of the pooled values lies on the inactive side.
  int below = 0;
  int all = 0;
  for (int h = 0; h < kLayers * kHeads; ++h) {
    for (const float x : Column(*job, "entropy", h)) {
      below += x < score.threshold_a();
      ++all;
    }
  }
  EXPECT_NEAR(below / static_cast<double>(all), .25, 1.5 / all);
}

TEST(Compare, OtherInputsAreSaidAndNotPaired) {
  const auto first = SampleJobMaker::Sweep();
  auto second = SampleJobMaker::Sweep();
  for (v1::ManifestSample& sample : *second->manifest.mutable_samples()) {
    sample.set_digest("other");
    for (int t = 0; t < 40; ++t) sample.add_suffix(t);
  }
  second->store.Plan(store::Stage::kScore, second->score_plan, second->manifest);
  second->store.Plan(store::Stage::kAblate, second->ablate_plan, second->manifest);
  TwoJobs store(*first, *second);
  const v1::Comparison comparison =
      CompareScores(store, store.artifacts(), Request("entropy", TwoJobs::kSecond)).value();
  EXPECT_FALSE(comparison.same_inputs());
  EXPECT_TRUE(comparison.same_shape());
  EXPECT_EQ(comparison.scores(0).to_inactive_size(), 0);
  EXPECT_EQ(comparison.scores(0).wasserstein_size(), kLayers * kHeads);
  ASSERT_EQ(comparison.warnings_size(), 2);
  EXPECT_NE(comparison.warnings(0).find("different token ids"), std::string::npos);
  EXPECT_NE(comparison.warnings(1).find("length"), std::string::npos);
  EXPECT_NEAR(comparison.mean_tokens_b(), comparison.mean_tokens_a() + 40, 1e-9);
}

TEST(Compare, LayersOfAnotherDepthAreLaidOverEachOther) {
  const auto first = SampleJobMaker::Sweep();
  auto second = SampleJobMaker::Sweep();
  // The second model has a layer more: its slabs are repeated in part.
  for (size_t u = 0; u < second->score_chunks.size(); ++u) {
    v1::ScoreChunk chunk = second->score_chunks[u];
    chunk.set_layers(kLayers + 1);
    for (v1::Slab& slab : *chunk.mutable_slabs()) {
      if (slab.measurement() == "from_the_future") continue;
      const size_t layer = kHeads * sizeof(float);
      std::string values;
      for (int i = 0; i < chunk.samples(); ++i) {
        const std::string of_sample =
            slab.values().substr(static_cast<size_t>(i) * kLayers * layer, kLayers * layer);
        values += of_sample + of_sample.substr(0, layer);
      }
      slab.set_values(values);
    }
    second->store.Store(static_cast<int64_t>(u), chunk);
  }
  TwoJobs store(*first, *second);
  const v1::Comparison comparison =
      CompareScores(store, store.artifacts(), Request("entropy", TwoJobs::kSecond)).value();
  EXPECT_FALSE(comparison.same_shape());
  EXPECT_EQ(comparison.layers_b(), 4);
  ASSERT_EQ(comparison.scores(0).layers_size(), 3);
  EXPECT_EQ(comparison.scores(0).layers(0).layer_b(), 0);
  EXPECT_EQ(comparison.scores(0).layers(1).layer_b(), 2);
  EXPECT_EQ(comparison.scores(0).layers(2).layer_b(), 3);
  EXPECT_EQ(comparison.scores(0).layers(0).wasserstein(), 0);
  EXPECT_EQ(comparison.scores(0).wasserstein_size(), 0);
  ASSERT_EQ(comparison.warnings_size(), 1);
  EXPECT_NE(comparison.warnings(0).find("relative depth"), std::string::npos);
}

TEST(Compare, WhatCannotBeComparedIsNamed) {
  const auto job = SampleJobMaker::Sweep();
  const auto field = [&](const v1::CompareScoresRequest& request) {
    return FieldOf(CompareScores(job->store, job->store.artifacts(), request).status());
  };
  v1::CompareScoresRequest request = Request("random");
  EXPECT_EQ(field(request), "scores[0]");
  request = Request("entropy");
  request.set_score_b("random");
  EXPECT_EQ(field(request), "score_b");
  request = Request("entropy");
  request.set_fraction(1);
  EXPECT_EQ(field(request), "fraction");
  request.clear_scores();
  request.clear_fraction();
  EXPECT_EQ(field(request), "scores");
  const auto ablate = SampleJobMaker::Ablate();
  EXPECT_EQ(
      ReasonOf(
          CompareScores(ablate->store, ablate->store.artifacts(), Request("entropy")).status()),
      "NO_SCORES");
}

}  // namespace
}  // namespace headcount::results
