// Knockouts: each head's numbers are those of its rule's point, and scores are held against them.

#include "server/results/knockout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/errors.h"
#include "common/catalog/scores.h"
#include "server/results/curves.h"
#include "server/results/ranks.h"
#include "server/results/score_means.h"
#include "tests/server/results/two_jobs.h"

namespace headcount::results {
namespace {

v1::GetKnockoutRequest Request(const char* scores = "") {
  v1::GetKnockoutRequest request;
  request.set_job(FakeJob::kName);
  request.set_score_job(scores);
  return request;
}

TEST(Knockout, EachHeadHasThePointOfItsRule) {
  const auto job = SampleJobMaker::Knockout();
  const v1::Knockout answer = GetKnockout(job->store, job->store.artifacts(), Request()).value();
  EXPECT_EQ(answer.layers(), 3);
  EXPECT_EQ(answer.heads(), kHeads);
  EXPECT_EQ(answer.documents(), 24);
  EXPECT_TRUE(answer.complete());
  EXPECT_TRUE(answer.agreements().empty());
  ASSERT_EQ(answer.change_size(), 3 * kHeads);
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  const v1::Curves curves = GetCurves(job->store, job->store.artifacts(), request).value();
  EXPECT_EQ(answer.baseline().accuracy(), curves.baseline().accuracy());
  int compared = 0;
  int harmful = 0;
  for (const v1::CurvePoint& point : curves.curves(0).points()) {
    if (point.rule() < 0) continue;
    const int layer = point.rule() < kHeads ? 0 : 2;
    const int at = layer * kHeads + point.rule() % kHeads;
    EXPECT_NEAR(answer.change(at), point.gold_log_likelihood_change(), 1e-12);
    EXPECT_NEAR(answer.low(at), point.gold_log_likelihood_change_low(), 1e-12);
    EXPECT_NEAR(answer.high(at), point.gold_log_likelihood_change_high(), 1e-12);
    EXPECT_NEAR(answer.accuracy_change(at), point.difference(), 1e-12);
    harmful += point.gold_log_likelihood_change_high() < 0;
    ++compared;
  }
  EXPECT_EQ(compared, 8);
  EXPECT_EQ(answer.harmful_heads(), harmful);
  for (int head = 0; head < kHeads; ++head) {
    EXPECT_TRUE(std::isnan(answer.change(kHeads + head))) << "layer 1 was not knocked out";
  }
}

TEST(Knockout, ScoresAreHeldAgainstTheDamage) {
  const auto knockout = SampleJobMaker::Knockout();
  const auto scores = SampleJobMaker::Sweep();
  TwoJobs store(*knockout, *scores);
  const v1::Knockout answer =
      GetKnockout(store, store.artifacts(), Request(TwoJobs::kSecond)).value();
  ASSERT_EQ(answer.agreements_size(), static_cast<int>(catalog::Scores().size()) - 1);
  for (const v1::ScoreAgreement& agreement : answer.agreements()) {
    const catalog::Score* score = catalog::FindScore(agreement.score()).value();
    const ScoreMeans means =
        ReadScoreMeans(store, store.artifacts(), TwoJobs::kSecond, std::vector{score}).value();
    std::vector<double> activity, damage;
    for (const int layer : {0, 2}) {
      for (int head = 0; head < kHeads; ++head) {
        const int at = layer * kHeads + head;
        const double mean = means.values[0][static_cast<size_t>(at)];
        activity.push_back(score->inactive == catalog::Inactive::kBelow ? mean : -mean);
        damage.push_back(-answer.change(at));
      }
    }
    EXPECT_EQ(agreement.heads(), 8);
    EXPECT_NEAR(agreement.spearman(), Spearman(activity, damage), 1e-12);
  }
}

TEST(Knockout, WhatDoesNotFitIsRefused) {
  const auto sweep = SampleJobMaker::Sweep();
  EXPECT_EQ(ReasonOf(GetKnockout(sweep->store, sweep->store.artifacts(), Request()).status()),
            "WRONG_KIND");
  const auto knockout = SampleJobMaker::Knockout();
  TwoJobs itself(*knockout, *knockout);
  EXPECT_EQ(ReasonOf(GetKnockout(itself, itself.artifacts(), Request(TwoJobs::kSecond)).status()),
            "NO_SCORES");
}

}  // namespace
}  // namespace headcount::results
