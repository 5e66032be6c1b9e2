// Every statistic against scipy and statsmodels on fixed data: reference_statistics.py made the
// file that is read here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/results/bootstrap.h"
#include "server/results/certify.h"
#include "server/results/distances.h"
#include "server/results/ranks.h"
#include "server/results/statistics.h"
#include "server/results/student_t.h"

namespace headcount::results {
namespace {

using Doubles = std::vector<double>;

const nlohmann::json& Reference() {
  static const nlohmann::json reference = [] {
    std::ifstream file("tests/golden/statistics/reference.json");
    EXPECT_TRUE(file) << "run from the repository's root";
    return nlohmann::json::parse(file);
  }();
  return reference;
}

TEST(Reference, PairedDifferences) {
  for (const auto& each : Reference()["paired"]) {
    const auto values = each["values"].get<Doubles>();
    const auto clusters = each["clusters"].get<std::vector<int32_t>>();
    const PairedDifference paired =
        ComparePaired(values, clusters, 1 + *std::max_element(clusters.begin(), clusters.end()));
    EXPECT_NEAR(paired.mean, each["mean"], 1e-12);
    EXPECT_NEAR(paired.standard_error, each["standard_error"], 1e-12);
    EXPECT_NEAR(paired.standard_error_iid, each["iid_standard_error"], 1e-12);
    EXPECT_NEAR(paired.low, each["low"], 1e-10);
    EXPECT_NEAR(paired.high, each["high"], 1e-10);
    EXPECT_NEAR(paired.p, each["p"], 1e-10);
    const PairedDifference iid = ComparePaired(values, std::vector<int32_t>(values.size(), 0), 1);
    EXPECT_NEAR(iid.low, each["iid_low"], 1e-10);
    EXPECT_NEAR(iid.high, each["iid_high"], 1e-10);
    EXPECT_NEAR(iid.p, each["iid_p"], 1e-10);
  }
}

TEST(Reference, WithoutVariation) {
  const double none[] = {0, 0, 0};
  const int32_t cluster[] = {0, 0, 0};
  PairedDifference paired = ComparePaired(none, cluster, 1);
  EXPECT_EQ(paired.p, 1);
  EXPECT_EQ(paired.low, 0);
  const double all[] = {-1, -1};
  paired = ComparePaired(all, std::span(cluster).first(2), 1);
  EXPECT_EQ(paired.p, 0);
  EXPECT_EQ(paired.high, -1);
  const double one[] = {1};
  paired = ComparePaired(one, std::span(cluster).first(1), 1);
  EXPECT_TRUE(std::isnan(paired.low) && std::isnan(paired.p));
}

TEST(Reference, McNemar) {
  for (const auto& each : Reference()["mcnemar"]) {
    EXPECT_NEAR(McNemarExactP(each["to_wrong"], each["to_right"]), each["p"], 1e-12);
  }
}

TEST(Reference, Holm) {
  const auto p = Reference()["holm"]["p"].get<Doubles>();
  const auto expected = Reference()["holm"]["adjusted"].get<Doubles>();
  Doubles with_hole = p;
  with_hole.insert(with_hole.begin() + 3, std::nan(""));  // does not count
  const Doubles adjusted = HolmAdjusted(with_hole);
  EXPECT_TRUE(std::isnan(adjusted[3]));
  for (size_t i = 0; i < p.size(); ++i) {
    EXPECT_NEAR(adjusted[i < 3 ? i : i + 1], expected[i], 1e-12);
  }
}

TEST(Reference, StudentT) {
  for (const auto& each : Reference()["student"]) {
    const double p = each["p"];
    EXPECT_NEAR(StudentTwoSidedP(each["t"], each["freedom"]), p, 1e-9 * p);
    EXPECT_NEAR(StudentCritical(.05, each["freedom"]), each["critical"], 1e-9);
  }
  EXPECT_TRUE(std::isnan(StudentTwoSidedP(1, 0)));
}

TEST(Reference, Ranks) {
  for (const auto& each : Reference()["ranks"]) {
    const auto a = each["a"].get<Doubles>();
    const auto b = each["b"].get<Doubles>();
    EXPECT_EQ(AverageRanks(a), each["ranks"].get<Doubles>());
    EXPECT_NEAR(Spearman(a, b), each["spearman"], 1e-12);
    EXPECT_NEAR(AreaUnderRoc(a, each["positive"].get<std::vector<uint8_t>>()), each["auroc"],
                1e-12);
    EXPECT_NEAR(TopOverlap(a, b, 5), each["top_5_overlap"], 1e-12);
  }
  const double few[] = {3, 1};
  EXPECT_TRUE(std::isnan(TopOverlap(few, few, 5)));
  EXPECT_EQ(RanksFromLargest(few), (Doubles{1, 2}));
}

TEST(Reference, Distances) {
  for (const auto& each : Reference()["distances"]) {
    const auto a = each["a"].get<std::vector<float>>();
    const auto b = each["b"].get<std::vector<float>>();
    EXPECT_NEAR(Wasserstein1(a, b), each["wasserstein"], 1e-9);
    EXPECT_NEAR(KolmogorovSmirnov(a, b), each["kolmogorov_smirnov"], 1e-12);
    EXPECT_NEAR(Wasserstein1(b, a), each["wasserstein"], 1e-9);
  }
  EXPECT_TRUE(std::isnan(Wasserstein1({}, {})));
}

// The quantile of a bootstrap of D draws has a standard error of about sqrt(.025 x .975 / D) over
// the density there: .06 deviations for 2,000 draws of something normal. Four of these.
void ExpectWithin(const Bounds& bounds, const nlohmann::json& reference) {
  const double tolerance = .25 * reference["deviation"].get<double>() + 1e-6;
  EXPECT_NEAR(bounds.low, reference["low"], tolerance);
  EXPECT_NEAR(bounds.high, reference["high"], tolerance);
}

BootstrapInput InputOf(const nlohmann::json& reference) {
  BootstrapInput input;
  input.baseline.correct = reference["baseline"].get<std::vector<uint8_t>>();
  for (size_t r = 0; r < reference["correct"].size(); ++r) {
    input.rules.push_back({reference["correct"][r].get<std::vector<uint8_t>>(),
                           reference["share"][r].get<std::vector<float>>()});
  }
  input.curves = reference["curves"].get<std::vector<std::vector<int>>>();
  input.margin_points = reference["margin_points"];
  return input;
}

TEST(Reference, Bootstrap) {
  const nlohmann::json& reference = Reference()["bootstrap"];
  const Bootstrap bootstrap = BootstrapCurves(InputOf(reference));
  ASSERT_EQ(bootstrap.curves.size(), 2u);
  ASSERT_EQ(bootstrap.differences.size(), 1u);
  for (size_t m = 0; m < kCurveMetrics; ++m) {
    SCOPED_TRACE(reference["metrics"][m].get<std::string>());
    const double first = reference["whole"][0][m];
    const double second = reference["whole"][1][m];
    EXPECT_NEAR(bootstrap.differences[0].mean[m], first - second, 1e-4);
    EXPECT_EQ(bootstrap.curves[0].ranks[m], first > second ? 1 : first < second ? 2 : 1.5);
    for (size_t c = 0; c < 2; ++c) {
      ExpectWithin(bootstrap.curves[c].bounds[m], reference["bounds"][c][m]);
    }
    ExpectWithin(bootstrap.differences[0].bounds[m], reference["difference"][m]);
    ExpectWithin(bootstrap.curves[0].rank_bounds[m], reference["rank_of_first"][m]);
  }
}

TEST(Reference, BootstrapDependsOnItsSeedAlone) {
  BootstrapInput input = InputOf(Reference()["bootstrap"]);
  input.draws = 101;
  const auto low = [&input] { return BootstrapCurves(input).curves[1].bounds[0].low; };
  const double once = low();
  EXPECT_EQ(low(), once);
  input.seed = 1;
  EXPECT_NE(low(), once);
}

TEST(Certify, StaysWideWhereNothingFlips) {
  // 40 documents without a flip do not show that less than a point is lost.
  EXPECT_LT(CertificateBound(0, 0, 0, 40), -.05);
  EXPECT_GT(CertificateBound(0, 0, 0, 2'000), -.01);
  // By hand: (1 + 1) / 102 each, no difference.
  EXPECT_NEAR(BonettPrice(1, 1, 100).low, -1.959963984540054 * std::sqrt(4 / 102.0 / 102), 1e-12);
  EXPECT_EQ(CertificateBound(-.5, 1, 1, 100), -.5);
}

TEST(Certify, OnePointNeedsMoreDocumentsThanTheSmallTasksHave) {
  // At 10 % discordance, the sizes of WinoGrande, PIQA and GSM8K; MMLU's is enough.
  for (const int64_t n : {1'267, 1'838, 1'319}) EXPECT_GT(SmallestMargin(n / 10, n, 1, 1), .01);
  EXPECT_LT(SmallestMargin(1'404, 14'042, 1, 1), .01);
  EXPECT_NEAR(SmallestMargin(1'404, 14'042, 2, 1), 2 * SmallestMargin(1'404, 14'042, 1, 1), 1e-15);
}

}  // namespace
}  // namespace headcount::results
