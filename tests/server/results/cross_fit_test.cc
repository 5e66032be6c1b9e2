// Cross-fitted choices of a made-up job against the same computed here from its rows.

#include "server/results/cross_fit.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/base/errors.h"
#include "server/results/statistics.h"
#include "tests/server/results/expected.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

constexpr int kFolds = 3;

absl::StatusOr<v1::Curves> Get(SampleJob& job, int folds, double margin) {
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  request.set_margin_points(margin);
  request.set_cross_fit(folds);
  return GetCurves(job.store, job.store.artifacts(), request);
}

// By document: its fold, the subtasks of the made-up job being runs of eight documents.
int FoldOf(size_t document) { return static_cast<int>(document % 8) % kFolds; }

struct Point {
  double share = 0;
  double difference = 0;
};

// Of a rule over the documents of a fold, or (`others`) of all other folds; fold -1: over all.
Point Over(const Expected& base, const Expected& rule, int fold, bool others) {
  Point point;
  int n = 0;
  for (size_t d = 0; d < base.correct.size(); ++d) {
    if (fold >= 0 && (FoldOf(d) == fold) == others) continue;
    point.share += rule.share[d];
    point.difference += rule.correct[d] - base.correct[d];
    ++n;
  }
  return {point.share / n, point.difference / n};
}

TEST(CrossFit, ChoosesOnTheOtherFoldsAndMeasuresOnItsOwn) {
  const auto job = SampleJobMaker::Sweep();
  job->store.job().mutable_sweep()->add_scores("HONOR");
  const Expected base = Compute(*job, -1);
  for (const double margin : {4., 9., 15., 40.}) {
    SCOPED_TRACE(margin);
    const auto curves = Get(*job, kFolds, margin);
    ASSERT_TRUE(curves.ok()) << curves.status();
    const v1::CrossFit& fit = curves->cross_fit();
    ASSERT_EQ(fit.folds_size(), kFolds);
    std::vector<double> differences(base.correct.size(), 0);
    double share = 0;
    const auto expect = [&](const v1::FoldChoice& choice, int fold) {
      int chosen = -1;
      double most = 0;
      for (int rule = 0; rule < 3; ++rule) {  // those of `random` are not among the spec's scores
        const Point on = Over(base, Compute(*job, rule), fold, /*others=*/true);
        if (on.difference >= -margin / 100 && on.share > most) {
          chosen = rule;
          most = on.share;
        }
      }
      EXPECT_EQ(choice.rule(), chosen);
      if (chosen < 0) return;
      const Expected rule = Compute(*job, chosen);
      const Point measured = Over(base, rule, fold, /*others=*/false);
      EXPECT_EQ(choice.score(), "output_norm_ln");
      EXPECT_NEAR(choice.share_zeroed(), measured.share, 1e-12);
      EXPECT_NEAR(choice.difference(), measured.difference, 1e-12);
      for (size_t d = 0; d < base.correct.size() && fold >= 0; ++d) {
        if (FoldOf(d) != fold) continue;
        differences[d] = rule.correct[d] - base.correct[d];
        share += rule.share[d];
      }
    };
    int64_t documents = 0;
    for (int fold = 0; fold < kFolds; ++fold) {
      expect(fit.folds(fold), fold);
      documents += fit.folds(fold).documents();
    }
    EXPECT_EQ(documents, 24);
    expect(fit.in_sample(), -1);
    EXPECT_EQ(fit.in_sample().documents(), 24);
    EXPECT_NEAR(fit.difference(), Mean(differences), 1e-12);
    EXPECT_NEAR(fit.share_zeroed(), share / 24, 1e-12);
    EXPECT_LE(fit.difference_low(), fit.difference());
  }
}

TEST(CrossFit, NeedsFoldsWithDocuments) {
  const auto job = SampleJobMaker::Sweep();
  EXPECT_EQ(FieldOf(Get(*job, 1, 1).status()), "cross_fit");
  EXPECT_EQ(FieldOf(Get(*job, -2, 1).status()), "cross_fit");
  EXPECT_EQ(FieldOf(Get(*job, 25, 1).status()), "cross_fit") << "24 documents";
  EXPECT_TRUE(Get(*job, 24, 1).ok());
  EXPECT_FALSE(Get(*job, 0, 1)->has_cross_fit());
}

}  // namespace
}  // namespace headcount::results
