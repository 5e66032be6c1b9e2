// Curves and unit counts of a made-up job against the same numbers computed here from its rows, in
// the plainest way.

#include "server/results/curves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "common/base/errors.h"
#include "server/results/certify.h"
#include "server/results/curve_intervals.h"
#include "server/results/rule_index.h"
#include "server/results/statistics.h"
#include "server/results/unit_counts.h"
#include "tests/server/results/expected.h"
#include "tests/server/results/sample_job.h"
#include "tests/server/results/two_jobs.h"

namespace headcount::results {
namespace {

v1::Curves Get(SampleJob& job, double margin = 0) {
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  request.set_margin_points(margin);
  absl::StatusOr<v1::Curves> curves = GetCurves(job.store, job.store.artifacts(), request);
  EXPECT_TRUE(curves.ok()) << curves.status();
  return curves.ok() ? *std::move(curves) : v1::Curves();
}

void ExpectPoint(const v1::CurvePoint& point, const Expected& base, const Expected& rule) {
  EXPECT_EQ(point.documents(), 24);
  EXPECT_NEAR(point.accuracy(), Mean(rule.correct), 1e-12);
  EXPECT_NEAR(point.accuracy_norm(), Mean(rule.correct_norm), 1e-12);
  EXPECT_NEAR(point.share_zeroed(), Mean(rule.share), 1e-12);
  // Three subtasks of 8 documents: lm-evaluation-harness pools them.
  double pooled = 0;
  std::vector<double> differences;
  double clustered = 0;
  double gold = 0;
  int to_wrong = 0;
  int to_right = 0;
  for (size_t d = 0; d < 24; ++d) {
    differences.push_back(rule.correct[d] - base.correct[d]);
    to_wrong += differences.back() < 0;
    to_right += differences.back() > 0;
    gold += (rule.gold[d] - base.gold[d]) / 24;
  }
  for (size_t first = 0; first < 24; first += 8) {
    const double error = StandardError(std::span(rule.correct).subspan(first, 8));
    pooled += 7 * error * error * 8;
    double sum = 0;
    for (size_t d = first; d < first + 8; ++d) sum += differences[d] - Mean(differences);
    clustered += sum * sum;
  }
  EXPECT_NEAR(point.standard_error(), std::sqrt(pooled / (24 - 3) / 24), 1e-12);
  EXPECT_NEAR(point.difference(), Mean(differences), 1e-12);
  EXPECT_NEAR(point.difference_standard_error_iid(), StandardError(differences), 1e-12);
  EXPECT_NEAR(point.difference_standard_error(), std::sqrt(1.5 * clustered) / 24, 1e-12);
  EXPECT_EQ(point.flips_to_wrong(), to_wrong);
  EXPECT_EQ(point.flips_to_right(), to_right);
  EXPECT_NEAR(point.mcnemar_p(), McNemarExactP(to_wrong, to_right), 1e-12);
  EXPECT_NEAR(point.gold_log_likelihood_change(), gold, 1e-9);
  // Three clusters: Student's t with two degrees of freedom.
  const double half = 4.302652729911275 * point.difference_standard_error();
  EXPECT_NEAR(point.difference_low(), point.difference() - half, 1e-9);
  EXPECT_NEAR(point.difference_high(), point.difference() + half, 1e-9);
  EXPECT_NEAR(point.certificate_bound(),
              std::min(point.difference_low(), BonettPrice(to_wrong, to_right, 24).low), 1e-12);
  EXPECT_NEAR(point.gold_log_likelihood_change_high() - gold,
              4.302652729911275 * point.gold_log_likelihood_change_standard_error(), 1e-9);
}

TEST(Curves, AStageThatHasGrownHasTheSame) {
  const auto grid = SampleJobMaker::Sweep();
  const auto grown = SampleJobMaker::GrownSweep();
  EXPECT_EQ(Get(*grown).SerializeAsString(), Get(*grid).SerializeAsString());
}

TEST(Curves, OfASweep) {
  const auto job = SampleJobMaker::Sweep();
  const v1::Curves curves = Get(*job);
  EXPECT_TRUE(curves.complete());
  EXPECT_TRUE(curves.in_sample());
  EXPECT_EQ(curves.documents(), 24);
  EXPECT_EQ(curves.margin_points(), 1);
  const Expected base = Compute(*job, -1);
  ExpectPoint(curves.baseline(), base, base);
  EXPECT_EQ(curves.baseline().rule(), kBaselineRule);
  EXPECT_EQ(curves.baseline().share_zeroed(), 0);
  EXPECT_EQ(curves.baseline().mcnemar_p(), 1);

  ASSERT_EQ(curves.curves_size(), 2);
  EXPECT_EQ(curves.curves(0).id(), "output_norm_ln");
  EXPECT_EQ(curves.curves(1).id(), "random");
  double common = 100;
  std::set<int> rules;
  for (const v1::Curve& curve : curves.curves()) {
    ASSERT_EQ(curve.points_size(), 4);
    EXPECT_EQ(curve.points(0).rule(), kBaselineRule);
    double area = 0;
    for (int p = 1; p < 4; ++p) {
      const v1::CurvePoint& point = curve.points(p);
      const v1::CurvePoint& before = curve.points(p - 1);
      SCOPED_TRACE(point.rule());
      rules.insert(point.rule());
      EXPECT_TRUE(point.complete());
      ExpectPoint(point, base, Compute(*job, point.rule()));
      const v1::ResolvedRule& rule = job->ablate_plan.rules(point.rule());
      EXPECT_EQ(point.nominal_fraction(), rule.nominal_fraction());
      EXPECT_EQ(point.threshold(), curve.id() == "random" ? rule.nominal_fraction()
                                                          : double{rule.threshold().value()});
      area += 5000 * (point.share_zeroed() - before.share_zeroed()) *
              (point.accuracy() + before.accuracy());
    }
    EXPECT_NEAR(curve.auc(), area / (100 * curve.points(3).share_zeroed()), 1e-9);
    common = std::min(common, curve.points(3).share_zeroed());
  }
  EXPECT_EQ(rules, (std::set<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_NEAR(curves.auc_common_limit(), common, 1e-15);
}

TEST(Curves, PsAreAdjustedOverAllPoints) {
  const auto job = SampleJobMaker::Sweep();
  std::vector<double> clustered, exact, clustered_holm, exact_holm;
  const v1::Curves curves = Get(*job);
  for (const v1::Curve& curve : curves.curves()) {
    for (const v1::CurvePoint& point : curve.points()) {
      if (point.rule() == kBaselineRule) continue;
      clustered.push_back(point.difference_p());
      exact.push_back(point.mcnemar_p());
      clustered_holm.push_back(point.difference_p_holm());
      exact_holm.push_back(point.mcnemar_p_holm());
    }
  }
  ASSERT_EQ(clustered.size(), 6u);
  EXPECT_EQ(HolmAdjusted(clustered), clustered_holm);
  EXPECT_EQ(HolmAdjusted(exact), exact_holm);
  EXPECT_NE(clustered, clustered_holm);
}

TEST(Curves, CertifiedShareIsTheLargestPointWhoseBoundHolds) {
  const auto job = SampleJobMaker::Sweep();
  // 24 documents certify nothing within a point, and everything within 100.
  const v1::Curves narrow = Get(*job, 1);
  for (const v1::Curve& curve : narrow.curves()) EXPECT_EQ(curve.certified_share(), 0);
  const v1::Curves wide = Get(*job, 100);
  for (const v1::Curve& curve : wide.curves()) {
    EXPECT_EQ(curve.certified_share(), curve.points(3).share_zeroed());
  }
  const v1::Curve curve = Get(*job).curves(0);
  const double margin = -100 * curve.points(2).certificate_bound();
  double expected = 0;
  for (const v1::CurvePoint& point : curve.points()) {
    if (-100 * point.certificate_bound() <= margin) expected = point.share_zeroed();
  }
  EXPECT_EQ(Get(*job, margin + 1e-9).curves(0).certified_share(), expected);
}

TEST(Curves, IntervalsWhereDrawsAreAskedFor) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  request.set_bootstrap_draws(200);
  CurveCache cache;
  const v1::Curves curves = GetCurves(job->store, job->store.artifacts(), request, &cache).value();
  EXPECT_EQ(curves.bootstrap_draws(), 200);
  for (const v1::Curve& curve : curves.curves()) {
    ASSERT_EQ(curve.estimates_size(), 4);
    EXPECT_EQ(curve.estimates(0).metric(), "auc");
    EXPECT_EQ(curve.estimates(0).value(), curve.auc());
    EXPECT_LT(curve.estimates(0).interval().low(), curve.auc());
    EXPECT_GT(curve.estimates(0).interval().high(), curve.auc());
    const v1::MetricEstimate& share = curve.estimates(3);
    EXPECT_EQ(share.metric(), "largest_share");
    EXPECT_LE(share.interval().high(), 1);  // a share, not percent
    EXPECT_GT(share.interval().high(), 0);
  }
  EXPECT_EQ(curves.curves(0).estimates(0).rank() + curves.curves(1).estimates(0).rank(), 3);
  ASSERT_EQ(curves.differences_size(), 1);
  EXPECT_EQ(curves.differences(0).a(), "output_norm_ln");
  EXPECT_EQ(curves.differences(0).b(), "random");
  EXPECT_NEAR(curves.differences(0).metrics(0).value(),
              curves.curves(0).auc() - curves.curves(1).auc(), 1e-5);

  const auto text = [&] {
    return GetCurves(job->store, job->store.artifacts(), request, &cache)->SerializeAsString();
  };
  EXPECT_EQ(text(), curves.SerializeAsString());  // remembered
  request.set_bootstrap_seed(7);
  EXPECT_NE(text(), curves.SerializeAsString());
  EXPECT_EQ(Get(*job).bootstrap_draws(), 0);
  EXPECT_EQ(Get(*job).curves(0).estimates_size(), 0);
}

TEST(Curves, DrawsHaveALimit) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  for (const int draws : {-1, kMostDraws + 1}) {
    request.set_bootstrap_draws(draws);
    const auto answer = GetCurves(job->store, job->store.artifacts(), request);
    EXPECT_EQ(FieldOf(answer.status()), "bootstrap_draws");
  }
}

TEST(Curves, AnAblateJobCarriesItsBaseline) {
  const auto job = SampleJobMaker::Ablate();
  const v1::Curves curves = Get(*job);
  EXPECT_FALSE(curves.in_sample());
  ExpectPoint(curves.baseline(), Compute(*job, 0), Compute(*job, 0));
  ASSERT_EQ(curves.curves_size(), 2);
  // The user's first rule is index 1 of the stage, and rule 0 to clients.
  EXPECT_EQ(curves.curves(0).points(1).rule(), 0);
  ExpectPoint(curves.curves(0).points(1), Compute(*job, 0), Compute(*job, 1));
  EXPECT_EQ(curves.curves(1).id(), "fixed");
  EXPECT_EQ(curves.curves(1).points(1).rule(), 1);
  EXPECT_TRUE(std::isnan(curves.curves(1).points(1).nominal_fraction()));
  EXPECT_TRUE(std::isnan(curves.curves(1).points(1).threshold()));
}

TEST(Curves, LargestShareFollowsTheMargin) {
  const auto job = SampleJobMaker::Sweep();
  const v1::Curves all = Get(*job, 100);
  for (const v1::Curve& curve : all.curves()) {
    EXPECT_TRUE(curve.at_least());
    EXPECT_EQ(curve.largest_share(), curve.points(3).share_zeroed());
    EXPECT_TRUE(std::isnan(curve.first_crossing()));
  }
}

TEST(Curves, NonFiniteDocumentsAreWrongAndFailThePoint) {
  const auto job = SampleJobMaker::Sweep();
  // Sample 0 of rule 0 breaks: its document counts as wrong, one in 24 is over 1 %.
  v1::AblateChunk broken = job->ablate_chunks[0];
  broken.mutable_results(0)->set_non_finite(true);
  broken.mutable_results(0)->set_log_likelihoods(0, std::nanf(""));
  job->store.Store(0, broken);
  const v1::Curves curves = Get(*job);
  Expected rule = Compute(*job, 0);
  rule.correct[0] = 0;
  const v1::Curve& curve = curves.curves(0);
  const auto point = std::find_if(curve.points().begin(), curve.points().end(),
                                  [](const v1::CurvePoint& p) { return p.rule() == 0; });
  ASSERT_NE(point, curve.points().end());
  EXPECT_EQ(point->non_finite_documents(), 1);
  EXPECT_NEAR(point->accuracy(), Mean(rule.correct), 1e-12);
  EXPECT_NEAR(point->accuracy_finite(), Mean(rule.correct) * 24 / 23, 1e-12);
  EXPECT_TRUE(std::isfinite(point->gold_log_likelihood_change()));
  EXPECT_NE(curve.auc(), Get(*SampleJobMaker::Sweep()).curves(0).auc());
}

TEST(Curves, WhileTheJobRuns) {
  const auto whole = SampleJobMaker::Sweep();
  FakeJob& store = whole->store;
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);

  FakeJob fresh;
  fresh.job().mutable_sweep();
  absl::StatusOr<v1::Curves> none = GetCurves(fresh, fresh.artifacts(), request);
  EXPECT_EQ(ReasonOf(none.status()), "RESULTS_NOT_READY") << none.status();
  fresh.Plan(store::Stage::kScore, whole->score_plan, whole->manifest);
  none = GetCurves(fresh, fresh.artifacts(), request);
  EXPECT_EQ(ReasonOf(none.status()), "RESULTS_NOT_READY") << none.status();

  for (size_t u = 0; u < whole->score_chunks.size(); ++u) {
    fresh.Store(static_cast<int64_t>(u), whole->score_chunks[u]);
  }
  fresh.Plan(store::Stage::kAblate, whole->ablate_plan, whole->manifest);
  fresh.Store(0, whole->ablate_chunks[0]);  // rules 0 and 1, first block of 4 documents
  absl::StatusOr<v1::Curves> some = GetCurves(fresh, fresh.artifacts(), request);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_FALSE(some->complete());
  ASSERT_EQ(some->curves_size(), 2);
  ASSERT_EQ(some->curves(0).points_size(), 3);
  const v1::CurvePoint& point = some->curves(0).points(1);
  EXPECT_FALSE(point.complete());
  EXPECT_EQ(point.documents(), 4);
  EXPECT_TRUE(std::isnan(some->curves(0).auc())) << "an incomplete point stands on other documents";
  EXPECT_EQ(some->curves(1).points_size(), 1);

  request.set_job("projects/default/jobs/other");
  EXPECT_EQ(GetCurves(store, store.artifacts(), request).status().code(),
            absl::StatusCode::kNotFound);
  request.set_job(FakeJob::kName);
  request.set_margin_points(101);
  EXPECT_EQ(GetCurves(store, store.artifacts(), request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A reader that has answered before reads only what was not complete then.
TEST(Curves, AreRememberedOnceComplete) {
  const auto whole = SampleJobMaker::Sweep();
  FakeJob job;
  job.job().mutable_sweep();
  job.Plan(store::Stage::kScore, whole->score_plan, whole->manifest);
  for (size_t u = 0; u < whole->score_chunks.size(); ++u) {
    job.Store(static_cast<int64_t>(u), whole->score_chunks[u]);
  }
  job.Plan(store::Stage::kAblate, whole->ablate_plan, whole->manifest);
  CurveCache cache;
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  for (size_t u = 0; u < whole->ablate_chunks.size(); ++u) {
    job.Store(static_cast<int64_t>(u), whole->ablate_chunks[u]);
    const auto remembered = GetCurves(job, job.artifacts(), request, &cache);
    const auto anew = GetCurves(job, job.artifacts(), request);
    ASSERT_TRUE(remembered.ok()) << remembered.status();
    EXPECT_EQ(remembered->SerializeAsString(), anew->SerializeAsString()) << u;
  }
  // The first rule block is complete and not read again: not even a broken chunk is noticed.
  job.Store(0, v1::AblateChunk());
  job.Store(0, v1::ScoreChunk());
  EXPECT_FALSE(GetCurves(job, job.artifacts(), request).ok());
  EXPECT_TRUE(GetCurves(job, job.artifacts(), request, &cache).ok());
  job.job().set_uid("another job's");
  EXPECT_FALSE(GetCurves(job, job.artifacts(), request, &cache).ok());
}

TEST(CurveCache, KeepsTheJobsUsedLast) {
  CurveCache cache(2);
  const auto keep = [&](const char* uid) {
    cache.KeepBaseline(uid, std::make_shared<const RuleOutcomes>());
  };
  keep("a");
  keep("b");
  EXPECT_NE(cache.Baseline("a"), nullptr);
  keep("c");
  EXPECT_NE(cache.Baseline("a"), nullptr);
  EXPECT_EQ(cache.Baseline("b"), nullptr);
}

TEST(UnitCounts, AddUpToTheCurves) {
  const auto job = SampleJobMaker::Ablate();
  const int baseline_rules = BaselineRules(job->ablate_plan);
  ASSERT_EQ(baseline_rules, 1);
  std::map<int, v1::RuleCounts> sums;
  for (size_t u = 0; u < job->ablate_chunks.size(); ++u) {
    const auto block = static_cast<int>(u) % job->ablate_plan.sample_blocks_size();
    absl::StatusOr<v1::UnitCounts> counts =
        CountUnit(job->manifest, job->ablate_plan.sample_blocks(block), job->ablate_chunks[u],
                  baseline_rules);
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->rows(), job->ablate_chunks[u].results_size());
    for (const v1::RuleCounts& rule : counts->rules()) {
      v1::RuleCounts& sum = sums[rule.rule()];
      sum.set_documents(sum.documents() + rule.documents());
      sum.set_correct(sum.correct() + rule.correct());
      sum.set_share_sum(sum.share_sum() + rule.share_sum());
    }
  }
  const v1::Curves curves = Get(*job);
  ASSERT_EQ(sums.size(), 3);
  const v1::CurvePoint points[] = {curves.baseline(), curves.curves(0).points(1),
                                   curves.curves(1).points(1)};
  for (const v1::CurvePoint& point : points) {
    const v1::RuleCounts& sum = sums[point.rule()];
    EXPECT_EQ(sum.documents(), 24);
    EXPECT_NEAR(static_cast<double>(sum.correct()) / 24, point.accuracy(), 1e-12);
    EXPECT_NEAR(sum.share_sum() / 24, point.share_zeroed(), 1e-12);
  }
}

TEST(UnitCounts, OfAScoreUnit) {
  const auto job = SampleJobMaker::Sweep();
  absl::StatusOr<v1::UnitCounts> counts =
      CountUnit(job->manifest, job->score_plan.sample_blocks(0), job->score_chunks[0]);
  ASSERT_TRUE(counts.ok()) << counts.status();
  ASSERT_EQ(counts->rules_size(), 1);
  EXPECT_EQ(counts->rules(0).rule(), kBaselineRule);
  EXPECT_EQ(counts->rules(0).documents(), 4);
  EXPECT_EQ(counts->rules(0).share_sum(), 0);
}

// A worker that sends nonsense is told which field is wrong, and nothing is counted.
TEST(UnitCounts, RefusesWhatDoesNotFit) {
  const auto job = SampleJobMaker::Sweep();
  const v1::SampleBlock& block = job->ablate_plan.sample_blocks(0);
  const auto field = [&](const v1::AblateChunk& chunk) {
    const absl::Status status = CountUnit(job->manifest, block, chunk).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return FieldOf(status).value_or("none");
  };
  const v1::AblateChunk good = job->ablate_chunks[0];
  ASSERT_TRUE(CountUnit(job->manifest, block, good).ok());
  v1::AblateChunk bad = good;
  bad.set_first_sample(1);
  EXPECT_EQ(field(bad), "samples");
  bad = good;
  bad.set_layers(0);
  EXPECT_EQ(field(bad), "layers");
  bad = good;
  bad.mutable_results()->RemoveLast();
  EXPECT_EQ(field(bad), "results");
  bad = good;
  bad.mutable_results(1)->add_log_likelihoods(0);
  EXPECT_EQ(field(bad), "results.log_likelihoods");
  bad = good;
  bad.mutable_results(1)->set_mask("x");
  EXPECT_EQ(field(bad), "results.mask");
  bad = good;
  bad.mutable_results(1)->mutable_mask()->back() = '\x10';  // bit 12 of 12
  EXPECT_EQ(field(bad), "results.mask");
  bad = good;
  bad.set_zeroed("");
  EXPECT_EQ(field(bad), "zeroed");

  v1::ScoreChunk score = job->score_chunks[0];
  score.mutable_slabs(1)->mutable_values()->pop_back();
  EXPECT_EQ(FieldOf(CountUnit(job->manifest, job->score_plan.sample_blocks(0), score).status()),
            "slabs.first_weight");
  v1::SampleBlock split = job->score_plan.sample_blocks(0);
  split.set_samples(split.samples() - 1);
  score = job->score_chunks[0];
  score.set_samples(split.samples());
  score.mutable_results()->RemoveLast();
  score.clear_slabs();
  EXPECT_EQ(CountUnit(job->manifest, split, score).status().code(), absl::StatusCode::kInternal);
}

TEST(Curves, AreInSampleWhereTheCalibratingJobRanTheSameInputs) {
  const auto first = SampleJobMaker::Sweep();
  const auto in_sample = [&](SampleJob& second, const std::string& calibrate_on) {
    first->store.job().mutable_sweep()->set_calibrate_on(calibrate_on);
    TwoJobs store(*first, second);
    v1::GetCurvesRequest request;
    request.set_job(FakeJob::kName);
    const auto curves = GetCurves(store, store.artifacts(), request);
    EXPECT_TRUE(curves.ok()) << curves.status();
    return curves.ok() && curves->in_sample();
  };
  auto second = SampleJobMaker::Sweep();
  EXPECT_TRUE(in_sample(*second, ""));
  EXPECT_TRUE(in_sample(*second, TwoJobs::kSecond));
  for (v1::ManifestSample& sample : *second->manifest.mutable_samples()) {
    sample.set_digest("other");
  }
  second->store.Plan(store::Stage::kScore, second->score_plan, second->manifest);
  second->store.Plan(store::Stage::kAblate, second->ablate_plan, second->manifest);
  EXPECT_FALSE(in_sample(*second, TwoJobs::kSecond));
}

}  // namespace
}  // namespace headcount::results
