// A frontier read from stored units: what the search is fed, what it asks for next, how the answer
// is shown.

#include "server/results/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "common/base/errors.h"
#include "server/results/curves.h"
#include "server/results/samples.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

v1::Frontier Get(SampleJob& job) {
  v1::GetFrontierRequest request;
  request.set_job(FakeJob::kName);
  auto frontier = GetFrontier(job.store, job.store.artifacts(), request);
  EXPECT_TRUE(frontier.ok()) << frontier.status();
  return frontier.ok() ? *std::move(frontier) : v1::Frontier();
}

// Curves read the same rows by another way.
v1::CurvePoint PointOf(SampleJob& job, int rule) {
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  const v1::Curves curves = GetCurves(job.store, job.store.artifacts(), request).value();
  for (const v1::CurvePoint& point : curves.curves(0).points()) {
    if (point.rule() == rule) return point;
  }
  ADD_FAILURE() << "no point of rule " << rule;
  return {};
}

TEST(Frontier, DifferencesAndSharesAreThoseOfTheCurves) {
  const auto job = SampleJobMaker::Frontier();
  const v1::Frontier frontier = Get(*job);
  EXPECT_EQ(frontier.margin(), .3);
  EXPECT_EQ(frontier.alpha(), 1e-9);
  EXPECT_EQ(frontier.order(), v1::FrontierSpec::ASCENDING);
  EXPECT_EQ(frontier.claim(), v1::FrontierSpec::DOCUMENTS);
  EXPECT_EQ(frontier.documents(), 24);
  EXPECT_EQ(frontier.blocks(), 6);
  EXPECT_FALSE(frontier.complete()) << "the job has not ended";
  ASSERT_EQ(frontier.scores_size(), 1);
  const v1::ScoreFrontier& score = frontier.scores(0);
  ASSERT_EQ(score.shares_size(), 2);
  for (const v1::FrontierShare& share : score.shares()) {
    const v1::CurvePoint point = PointOf(*job, share.rule());
    EXPECT_EQ(share.documents(), 24);
    EXPECT_NEAR(share.difference(), point.difference(), 1e-12);
    EXPECT_NEAR(share.share_zeroed(), point.share_zeroed(), 1e-12);
    EXPECT_EQ(share.threshold(), point.threshold());
    // All were seen: about these documents the smallest margin is the loss itself.
    EXPECT_NEAR(share.smallest_margin(), std::max(0.0, -share.difference()), 1e-5);
    EXPECT_GT(share.smallest_margin_population(), share.smallest_margin());
    EXPECT_EQ(share.verdict(),
              share.difference() > -.3 ? v1::FrontierShare::CERTIFIED : v1::FrontierShare::REFUTED);
  }
  EXPECT_EQ(score.documents_spent(), 48);
  EXPECT_EQ(score.documents_of_full_grid(), 48);
  job->store.job().set_state(v1::Job::SUCCEEDED);
  EXPECT_TRUE(Get(*job).complete());
}

TEST(Frontier, SamplesComeInTheirOrder) {
  const auto job = SampleJobMaker::Frontier();
  v1::ListSamplesRequest request;
  request.set_job(FakeJob::kName);
  request.add_rules(1);
  request.set_first_sample(3);
  request.set_max_samples(20);
  const auto stream = SampleStream::Open(job->store, job->store.artifacts(), request).value();
  for (int i = 3; i < 23; ++i) {
    const std::optional<v1::SampleRecord> record = stream->Next().value();
    ASSERT_TRUE(record.has_value()) << i;
    EXPECT_EQ(record->sample(), job->manifest.samples(i).id());
    EXPECT_EQ(record->rule(), 1);
    for (const v1::AblateChunk& chunk : job->ablate_chunks) {
      const int64_t at = i - chunk.first_sample();
      if (chunk.first_rule() != 1 || at < 0 || at >= chunk.samples()) continue;
      EXPECT_EQ(record->mask(), chunk.results(static_cast<int>(at)).mask());
    }
  }
  EXPECT_FALSE(stream->Next().value().has_value());
}

TEST(Frontier, AUnitCountsOnceThoseBeforeItAreIn) {
  const auto job = SampleJobMaker::Frontier();
  // Units 0 and 2 of the first rule, out of order: unit 1 is still computed.
  FakeJob part;
  part.job() = job->store.job();
  part.Plan(store::Stage::kScore, job->score_plan, job->manifest);
  part.Plan(store::Stage::kAblate, job->ablate_plan, job->manifest);
  for (size_t u = 0; u < job->score_chunks.size(); ++u) {
    part.Store(static_cast<int64_t>(u), job->score_chunks[u]);
  }
  part.Store(0, job->ablate_chunks[0]);
  part.Store(2, job->ablate_chunks[2]);
  v1::GetFrontierRequest request;
  request.set_job(FakeJob::kName);
  const auto share = [&] {
    return GetFrontier(part, part.artifacts(), request).value().scores(0).shares(0);
  };
  EXPECT_EQ(share().documents(), 4);
  part.Store(1, job->ablate_chunks[1]);
  EXPECT_EQ(share().documents(), 12);
}

TEST(Frontier, AsksForBlocksInItsOrder) {
  const auto job = SampleJobMaker::Frontier();
  v1::StagePlan fresh = job->ablate_plan;
  fresh.clear_units();
  const auto units = NextFrontierUnits(job->store, job->store.artifacts(), job->store.job(), fresh);
  ASSERT_TRUE(units.ok()) << units.status();
  ASSERT_EQ(units->size(), 6u) << "the first look takes eight blocks, or all";
  for (size_t u = 0; u < units->size(); ++u) {
    const v1::SampleBlock& block = fresh.sample_blocks(fresh.block_order(static_cast<int>(u)));
    EXPECT_EQ((*units)[u].unit(), static_cast<int64_t>(u));
    EXPECT_EQ((*units)[u].first_sample(), block.first_sample());
    EXPECT_EQ((*units)[u].samples(), block.samples());
    EXPECT_EQ((*units)[u].first_rule(), 0);
    EXPECT_EQ((*units)[u].rules(), 1);
  }
  // With everything stored there is nothing left to ask.
  const auto rest =
      NextFrontierUnits(job->store, job->store.artifacts(), job->store.job(), job->ablate_plan);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_TRUE(rest->empty());
}

TEST(Frontier, OrderDependsOnTheSeedAlone) {
  const std::vector<int32_t> order = DrawOrder(50, 7);
  EXPECT_EQ(order, DrawOrder(50, 7));
  EXPECT_NE(order, DrawOrder(50, 8));
  EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 50u);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 49);
}

TEST(Frontier, OfAnotherKindIsRefused) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetFrontierRequest request;
  request.set_job(FakeJob::kName);
  const absl::Status status = GetFrontier(job->store, job->store.artifacts(), request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "WRONG_KIND");
}

}  // namespace
}  // namespace headcount::results
