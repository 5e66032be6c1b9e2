// Scores of a user's own: what they mean, and every way in which one is refused, with the position
// of a slip in its formula.

#include "common/catalog/user_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/errors.h"

namespace headcount::catalog {
namespace {

using ::testing::HasSubstr;

TEST(UserScore, IsAScoreLikeThoseOfTheTable) {
  const auto score = MakeUserScore("spread", "output / layer_mean(value)", Inactive::kAbove, "s");
  ASSERT_TRUE(score.ok()) << score.status();
  EXPECT_EQ((*score)->id, "spread");
  EXPECT_EQ((*score)->inactive, Inactive::kAbove);
  EXPECT_FALSE((*score)->is_random());
  const float output[] = {1, 2, 3, 4}, value[] = {1, 3, 0, 0};
  const float* measurements[kMeasurementCount] = {};
  measurements[static_cast<size_t>(Measurement::kOutput)] = output;
  measurements[static_cast<size_t>(Measurement::kValue)] = value;
  float out[4];
  (*score)->expression.EvaluateLayers(measurements, 2, 2, out);
  EXPECT_EQ(out[0], 0.5f);
  EXPECT_EQ(out[1], 1.0f);
  EXPECT_EQ(out[3], 1.0f) << "1 where the layer's mean is 0";
}

TEST(UserScore, DivisionByZeroIsNotFinite) {
  const auto score = MakeUserScore("ratio", "output / value", Inactive::kBelow, "s");
  const float output[] = {1, 0}, value[] = {0, 0};
  const float* measurements[kMeasurementCount] = {};
  measurements[static_cast<size_t>(Measurement::kOutput)] = output;
  measurements[static_cast<size_t>(Measurement::kValue)] = value;
  float out[2];
  (*score)->expression.EvaluateLayers(measurements, 1, 2, out);
  EXPECT_TRUE(std::isinf(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
}

TEST(UserScore, SlipsAreRefusedWithFieldAndPosition) {
  const auto refused = [](const char* name, const std::string& expression) {
    const absl::Status status =
        MakeUserScore(name, expression, Inactive::kBelow, "user_scores[0]").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << " " << expression;
    return FieldOf(status).value_or("none") + ": " + std::string(status.message());
  };
  EXPECT_THAT(refused("", "output"), HasSubstr("user_scores[0].name"));
  EXPECT_THAT(refused("Big", "output"), HasSubstr("user_scores[0].name"));
  EXPECT_THAT(refused("entropy", "output"), HasSubstr("is the name of a score of this server"));
  EXPECT_THAT(refused("a", "output /"), HasSubstr("expected a value, found the end at position 8"));
  EXPECT_THAT(refused("a", "output + heat"),
              HasSubstr("'heat' is neither a measurement nor a function at position 9"));
  EXPECT_THAT(refused("a", "(output"), HasSubstr("expected ')', found the end at position 7"));
  EXPECT_THAT(refused("a", "1 + 2"), HasSubstr("must use a measurement"));
  EXPECT_THAT(refused("a", std::string(1001, '1')), HasSubstr("at most 1000"));
}

}  // namespace
}  // namespace headcount::catalog
