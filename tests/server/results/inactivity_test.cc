// Inactivity of heads: counts against the drawn scores, the split of the variance by hand and by
// the definition.

#include "server/results/inactivity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/errors.h"
#include "server/results/curves.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

v1::GetInactivityRequest Request() {
  v1::GetInactivityRequest request;
  request.set_job(FakeJob::kName);
  request.set_score("entropy");
  return request;
}

// 1 where entropy is below the threshold: [sample][head].
std::vector<std::vector<int>> Inactive(const SampleJob& job, double threshold) {
  std::vector<std::vector<int>> rows;
  for (const v1::ScoreChunk& chunk : job.score_chunks) {
    for (const v1::Slab& slab : chunk.slabs()) {
      if (slab.measurement() != "entropy") continue;
      std::vector<float> values(slab.values().size() / sizeof(float));
      std::memcpy(values.data(), slab.values().data(), slab.values().size());
      for (size_t i = 0; i < values.size(); ++i) {
        if (i % (kLayers * kHeads) == 0) rows.emplace_back();
        rows.back().push_back(values[i] < threshold ? 1 : 0);
      }
    }
  }
  return rows;
}

TEST(Inactivity, SharesOfHeadsAndSubtasks) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetInactivityRequest request = Request();
  request.set_threshold(1);
  const v1::Inactivity answer = GetInactivity(job->store, job->store.artifacts(), request).value();
  const auto rows = Inactive(*job, 1);
  ASSERT_EQ(answer.share_size(), kLayers * kHeads);
  ASSERT_EQ(answer.subtasks_size(), 3);
  EXPECT_EQ(answer.subtasks(0).subtask(), "quiz_a");
  EXPECT_EQ(answer.subtasks(0).samples(), 16);
  EXPECT_EQ(answer.subtasks(2).samples(), 8);
  EXPECT_EQ(answer.samples(), 40);
  double mean = 0;
  for (int h = 0; h < kLayers * kHeads; ++h) {
    double all = 0;
    double first = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      all += rows[i][static_cast<size_t>(h)];
      if (i < 16) first += rows[i][static_cast<size_t>(h)];
    }
    EXPECT_NEAR(answer.share(h), all / 40, 1e-12);
    EXPECT_NEAR(answer.subtasks(0).share(h), first / 16, 1e-12);
    mean += all / 40 / (kLayers * kHeads);
  }
  const v1::InactivityVariance& variance = answer.variance();
  EXPECT_NEAR(variance.layer() + variance.head() + variance.subtask() + variance.sample(), 1,
              1e-12);
  // The layers' part by the definition.
  double between = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    double of_layer = 0;
    for (int h = 0; h < kHeads; ++h) of_layer += answer.share(layer * kHeads + h) / kHeads;
    between += (of_layer - mean) * (of_layer - mean) / kLayers;
  }
  EXPECT_NEAR(variance.layer(), between / (mean * (1 - mean)), 1e-12);
}

TEST(Inactivity, AFractionIsTurnedIntoItsThreshold) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetInactivityRequest request = Request();
  request.set_fraction(.25);
  const v1::Inactivity answer = GetInactivity(job->store, job->store.artifacts(), request).value();
  double mean = 0;
  for (const double share : answer.share()) mean += share / (kLayers * kHeads);
  EXPECT_NEAR(mean, .25, 1.001 / (40 * kLayers * kHeads));
  EXPECT_EQ(answer.never() + answer.sometimes() + answer.always(), kLayers * kHeads);
}

TEST(Inactivity, AlwaysSometimesNever) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetInactivityRequest request = Request();
  request.set_threshold(1e9);
  v1::Inactivity answer = GetInactivity(job->store, job->store.artifacts(), request).value();
  EXPECT_EQ(answer.always(), kLayers * kHeads);
  EXPECT_EQ(answer.kinds(0), v1::Inactivity::ALWAYS);
  EXPECT_TRUE(std::isnan(answer.variance().head())) << "nothing varies";
  request.set_threshold(-1);
  answer = GetInactivity(job->store, job->store.artifacts(), request).value();
  EXPECT_EQ(answer.never(), kLayers * kHeads);
  request.set_threshold(1);
  answer = GetInactivity(job->store, job->store.artifacts(), request).value();
  EXPECT_EQ(answer.sometimes(), kLayers * kHeads);
}

TEST(Inactivity, VarianceByHand) {
  // Two subtasks of two samples, one layer of two heads. Head 0: 2 of 2 and 0 of 2; head 1: 1 of 2
  // and 1 of 2. Grand mean 1/2, heads 1/2 each: nothing between heads.
  const InactiveCount counts[] = {{2, 2}, {2, 1}, {2, 0}, {2, 1}};
  const VarianceSplit split = SplitVariance(counts, 2, 1, 2);
  EXPECT_EQ(split.layer, 0);
  EXPECT_EQ(split.head, 0);
  EXPECT_DOUBLE_EQ(split.subtask, 1);  // 2 x .25 + 2 x .25
  EXPECT_DOUBLE_EQ(split.sample, 1);   // 2 x .25 of head 1, twice
  EXPECT_DOUBLE_EQ(split.total(), 8 * .25);
  // Two layers of one head, all in one, nothing in the other.
  const InactiveCount layers[] = {{3, 3}, {3, 0}};
  const VarianceSplit other = SplitVariance(layers, 1, 2, 1);
  EXPECT_DOUBLE_EQ(other.layer, 6 * .25);
  EXPECT_DOUBLE_EQ(other.total(), 6 * .25);
}

TEST(Inactivity, ExactlyOneOfThresholdAndFraction) {
  const auto job = SampleJobMaker::Sweep();
  const auto field = [&](const v1::GetInactivityRequest& request) {
    return FieldOf(GetInactivity(job->store, job->store.artifacts(), request).status());
  };
  v1::GetInactivityRequest request = Request();
  EXPECT_EQ(field(request), "threshold");
  request.set_threshold(1);
  request.set_fraction(.1);
  EXPECT_EQ(field(request), "threshold");
  request.clear_threshold();
  request.set_fraction(2);
  EXPECT_EQ(field(request), "fraction");
  request.clear_fraction();
  request.set_threshold(std::nan(""));
  EXPECT_EQ(field(request), "threshold");
  request.set_threshold(1);
  request.set_score("random");
  EXPECT_EQ(field(request), "score");
}

}  // namespace
}  // namespace headcount::results
