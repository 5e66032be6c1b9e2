// What the analysis makes of the published points equals what was published, rounded as it was
// published; ranks and overlaps equal scipy's (reference_statistics.py).

#include "server/paper/published.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include "common/base/errors.h"
#include "common/catalog/scores.h"
#include "nlohmann/json.hpp"

namespace headcount::paper {
namespace {

v1::Published Get(const std::string& model = "") {
  v1::GetPublishedRequest request;
  request.set_model(model);
  return GetPublished(request).value();
}

nlohmann::json Read(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << "run from the repository's root";
  return nlohmann::json::parse(file);
}

double Rounded(double x, int decimals) {
  const double scale = std::pow(10, decimals);
  return std::round(x * scale) / scale;
}

std::string Id(const nlohmann::json& alias) {
  return (*catalog::FindScore(alias.get<std::string>()))->id;
}

TEST(Published, EveryNumberOfThePaperIsReproduced) {
  const nlohmann::json models = Read("server/paper/published.json")["models"];
  const v1::Published published = Get();
  ASSERT_EQ(published.models_size(), 14);
  EXPECT_EQ(published.models(0).model(), "Llama-3.2-3B");
  int compared = 0;
  for (const v1::PublishedModel& model : published.models()) {
    SCOPED_TRACE(model.model());
    const nlohmann::json& data = models[model.model()];
    std::map<std::string, const v1::PublishedCurve*> curves;
    for (const v1::PublishedCurve& curve : model.curves()) curves[curve.score()] = &curve;
    for (const auto& [alias, area] : data["auc"].items()) {
      const v1::PublishedCurve& curve = *curves.at(Id(alias));
      EXPECT_NEAR(Rounded(curve.auc(), 2), area.get<double>(), 1e-9) << alias;
      EXPECT_NEAR(Rounded(100 * curve.largest_share(), 4),
                  data["within_1_point"][alias].get<double>(), 1e-9)
          << alias;
      EXPECT_EQ(curve.points_size(), 7);
      ++compared;
    }
    const nlohmann::json& table = data["table2"];
    EXPECT_NEAR(Rounded(100 * model.table2().first_token_weight(), 2),
                table["avg_weight_of_first_token"], 1e-9);
    EXPECT_NEAR(Rounded(100 * model.table2().best_other_share(), 2), table["best_other_percent"],
                1e-9);
    EXPECT_EQ(model.table2().best_other(), Id(table["best_other"]));
    EXPECT_EQ(model.table2().best_score(), Id(table["best_score"]));
    EXPECT_NEAR(100 * model.baseline_accuracy(), data["baseline"], 1e-9);
    EXPECT_GE(model.thresholds_size(), 3 * 13);
    EXPECT_EQ(model.note().find("int8") != std::string::npos,
              model.model().find("OLMo-2") != std::string::npos);
  }
  EXPECT_EQ(compared, 14 * 14);
}

TEST(Published, RanksAndOverlapsAreScipys) {
  std::map<std::tuple<std::string, std::string, std::string>, const v1::ModelAgreement*> found;
  const v1::Published published = Get();
  EXPECT_EQ(published.agreements_size(), 91 * 3);
  for (const v1::ModelAgreement& agreement : published.agreements()) {
    found[{agreement.a(), agreement.b(), agreement.metric()}] = &agreement;
  }
  int compared = 0;
  const nlohmann::json reference = Read("tests/golden/statistics/reference.json");
  for (const auto& pair : reference["paper"]) {
    const auto& agreement = *found.at({pair["a"], pair["b"], "auc"});
    EXPECT_NEAR(agreement.spearman(), pair["spearman"], 1e-12);
    EXPECT_NEAR(agreement.top5_overlap(), pair["top_5"], 1e-12);
    ++compared;
  }
  EXPECT_EQ(compared, 91);
  // The paper's own words: Head Output Norm (LN) is best for Llama-3.1-8B.
  std::map<std::string, double> ranks;
  const v1::Published llama = Get("Llama-3.1-8B");
  for (const v1::PublishedCurve& curve : llama.models(0).curves()) {
    ranks[curve.score()] = curve.ranks().at("auc");
  }
  EXPECT_EQ(ranks["output_norm_ln"], 1);
  EXPECT_EQ(ranks["last_output_norm_ln"], 2);
}

TEST(Published, ModelsAreFoundByEitherName) {
  EXPECT_EQ(PublishedName("Qwen2.5-7B"), "Qwen2.5-7B");
  EXPECT_EQ(PublishedName("Qwen/Qwen2.5-7B"), "Qwen2.5-7B");
  EXPECT_EQ(PublishedName("someone/Qwen2.5-7B"), "");
  EXPECT_EQ(PublishedName("SmolLM2-135M"), "");
  EXPECT_EQ(PublishedName(""), "");
  EXPECT_EQ(Get("meta-llama/Llama-3.2-3B").models(0).model(), "Llama-3.2-3B");
  EXPECT_EQ(Get("Llama-3.2-3B").agreements_size(), 0);
}

TEST(Published, WhatIsNotThereIsNamed) {
  v1::GetPublishedRequest request;
  request.set_model("gpt2");
  const absl::Status missing = GetPublished(request).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(missing), "MODEL_NOT_PUBLISHED");
  EXPECT_NE(missing.message().find("Qwen2.5-14B"), std::string::npos);
  request.set_model("");
  request.set_margin_points(-1);
  EXPECT_EQ(FieldOf(GetPublished(request).status()), "margin_points");
}

}  // namespace
}  // namespace headcount::paper
