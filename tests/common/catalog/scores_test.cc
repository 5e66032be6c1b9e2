// The score table against the list of the definition: names, aliases, sides and formulas, written
// out here once more.

#include "common/catalog/scores.h"

#include <set>
#include <string>

#include "common/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::catalog {
namespace {

using ::testing::HasSubstr;

struct Expected {
  const char* id;
  const char* alias;
  const char* formula;
  Inactive inactive;
};

constexpr Expected kExpected[] = {
    {"first_token_weight", "Dormant", "first_weight", Inactive::kAbove},
    {"first_token_weight_ln", "NormalizedDormant", "first_weight / layer_mean(first_weight)",
     Inactive::kAbove},
    {"entropy", "Entropy", "entropy", Inactive::kBelow},
    {"entropy_ln", "NormalizedEntropy", "entropy / layer_mean(entropy)", Inactive::kBelow},
    {"first_value_norm", "ValueVectorMagnitudeFirstToken", "first_value", Inactive::kBelow},
    {"first_value_norm_ln", "ValueVectorMagnitudeNormalizedFirstToken",
     "first_value / layer_mean(first_value)", Inactive::kBelow},
    {"value_norm", "ValueVectorAvgMagnitude", "value", Inactive::kBelow},
    {"value_norm_ln", "ValueVectorAvgNormalizedMagnitude", "value / layer_mean(value)",
     Inactive::kBelow},
    {"output_norm", "UnnormalizedHONOR", "output", Inactive::kBelow},
    {"output_norm_ln", "HONOR", "output / layer_mean(output)", Inactive::kBelow},
    {"last_output_norm", "HeadOutputMagnitudeLastToken", "last_output", Inactive::kBelow},
    {"last_output_norm_ln", "HeadOutputMagnitudeNormalizedLastToken",
     "last_output / layer_mean(output)", Inactive::kBelow},
    {"last_output_norm_hn", "HeadOutputMagnitudeNormalizedHeadLastToken", "last_output / output",
     Inactive::kBelow},
    {"projected_norm", "FullHeadOutput", "projected", Inactive::kBelow},
    {"projected_norm_ln", "FullHeadOutputNormalized", "projected / layer_mean(projected)",
     Inactive::kBelow},
    {"random", "Random", "", Inactive::kBelow},
};

TEST(Scores, AreTheFifteenAndRandom) {
  ASSERT_EQ(Scores().size(), std::size(kExpected));
  for (size_t i = 0; i < std::size(kExpected); ++i) {
    const Score& score = Scores()[i];
    EXPECT_EQ(score.id, kExpected[i].id);
    EXPECT_EQ(score.alias, kExpected[i].alias);
    EXPECT_EQ(score.formula, kExpected[i].formula);
    EXPECT_EQ(score.inactive, kExpected[i].inactive);
    EXPECT_FALSE(score.paper_name.empty() || score.unit.empty() || score.source.empty() ||
                 score.description.empty())
        << score.id;
    EXPECT_EQ(score.is_random(), score.id == "random");
    EXPECT_EQ(score.expression.steps().empty(), score.is_random());
  }
}

TEST(Scores, EveryMeasurementIsUsed) {
  unsigned used = 0;
  for (const Score& score : Scores()) used |= score.expression.measurements();
  EXPECT_EQ(used, (1u << kMeasurementCount) - 1);
}

TEST(Scores, AreFoundByIdAndAlias) {
  std::set<std::string> names;
  for (const Score& score : Scores()) {
    EXPECT_EQ(*FindScore(score.id), &score);
    EXPECT_EQ(*FindScore(score.alias), &score);
    EXPECT_TRUE(names.insert(score.id).second);
    EXPECT_TRUE(names.insert(score.alias).second);
  }
}

TEST(Scores, AnUnknownOneNamesTheNearest) {
  const absl::Status status = FindScore("output_nrm_ln").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("output_nrm_ln"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean 'output_norm_ln'?"));
  EXPECT_EQ(ReasonOf(status), "UNKNOWN_SCORE");
  EXPECT_THAT(std::string(FindScore("HONNOR").status().message()),
              HasSubstr("did you mean 'output_norm_ln'?"));
  EXPECT_THAT(std::string(FindScore("zzzzzzzz").status().message()),
              Not(HasSubstr("did you mean")));
  EXPECT_FALSE(FindScore("").ok());
}

}  // namespace
}  // namespace headcount::catalog
