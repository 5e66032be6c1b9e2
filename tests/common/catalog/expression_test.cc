// Score formulas: values, the one special division, and what is refused with which position.

#include "common/catalog/expression.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::catalog {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsNan;

// Two layers of two heads: first_weight and entropy are given, the rest is absent.
std::vector<float> Evaluate(const std::string& text,
                            std::vector<float> first_weight = {0.1f, 0.3f, 0.5f, 0.7f},
                            std::vector<float> entropy = {1, 2, 3, 4}) {
  auto expression = Expression::Parse(text);
  EXPECT_TRUE(expression.ok()) << text << ": " << expression.status();
  const float* measurements[kMeasurementCount] = {first_weight.data(), entropy.data()};
  std::vector<float> out(4, -99);
  if (expression.ok()) expression->EvaluateLayers(measurements, 2, 2, out);
  return out;
}

TEST(Expression, FollowsPrecedenceAndAssociativity) {
  EXPECT_THAT(Evaluate("entropy - 1 - 1"), ElementsAre(-1, 0, 1, 2));
  EXPECT_THAT(Evaluate("1 + 2 * entropy"), ElementsAre(3, 5, 7, 9));
  EXPECT_THAT(Evaluate("(1 + 2) * entropy"), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(Evaluate("12 / entropy / 2"), ElementsAre(6, 3, 2, 1.5f));
  EXPECT_THAT(Evaluate("-entropy + --entropy - -1"), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Evaluate("-entropy * -2"), ElementsAre(2, 4, 6, 8));
}

TEST(Expression, KnowsItsFunctions) {
  EXPECT_THAT(Evaluate("layer_mean(entropy)"), ElementsAre(1.5f, 1.5f, 3.5f, 3.5f));
  EXPECT_THAT(Evaluate("min(entropy, 2.5)"), ElementsAre(1, 2, 2.5f, 2.5f));
  EXPECT_THAT(Evaluate("max(2.5e0, entropy)"), ElementsAre(2.5f, 2.5f, 3, 4));
  EXPECT_THAT(Evaluate("abs(entropy - 3)"), ElementsAre(2, 1, 0, 1));
  EXPECT_THAT(Evaluate("sqrt(entropy * entropy)"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(
      Evaluate("log(entropy)"),
      ElementsAre(0, FloatEq(std::log(2.f)), FloatEq(std::log(3.f)), FloatEq(std::log(4.f))));
}

TEST(Expression, DividingByALayerMeanOfZeroGivesOneForEveryHead) {
  EXPECT_THAT(Evaluate("entropy / layer_mean(entropy)", {0, 0, 0, 0}, {0, 0, 2, 6}),
              ElementsAre(1, 1, 0.5f, 1.5f));
  // Also where another measurement stands above, and in parentheses.
  EXPECT_THAT(Evaluate("first_weight / (layer_mean(entropy))", {5, 6, 7, 8}, {0, 0, 1, 1}),
              ElementsAre(1, 1, 7, 8));
  // Plain divisions by zero stay what float arithmetic says.
  EXPECT_THAT(Evaluate("entropy / (layer_mean(entropy) + 0)", {0, 0, 0, 0}, {0, 0, 2, 6}),
              ElementsAre(IsNan(), IsNan(), 0.5f, 1.5f));
}

TEST(Expression, MinAndMaxHandNanOn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Evaluate("min(entropy, 1)", {0, 0, 0, 0}, {nan, 2, 3, nan}),
              ElementsAre(IsNan(), 1, 1, IsNan()));
  EXPECT_THAT(Evaluate("max(1, entropy)", {0, 0, 0, 0}, {nan, 2, 3, nan}),
              ElementsAre(IsNan(), 2, 3, IsNan()));
}

TEST(Expression, NamesTheMeasurementsItUses) {
  EXPECT_EQ(Expression::Parse("last_output / output")->measurements(),
            (1u << static_cast<int>(Measurement::kLastOutput)) |
                (1u << static_cast<int>(Measurement::kOutput)));
  EXPECT_EQ(Expression::Parse("1 + 2")->measurements(), 0u);
}

TEST(Expression, RefusesWithThePositionAndTheToken) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected a value, found the end at position 0"},
      {"entropy +", "expected a value, found the end at position 9"},
      {"entropy entropy", "expected an operator or the end, found 'entropy' at position 8"},
      {"entrpy", "'entrpy' is neither a measurement nor a function at position 0"},
      {"min(entropy)", "expected ',', found ')' at position 11"},
      {"layer_mean entropy", "expected '(', found 'entropy' at position 11"},
      {"(entropy", "expected ')', found the end at position 8"},
      {"2 * 3x", "found 'x' at position 5"},
      {"1e99", "a number that float32 can hold, found '1e99' at position 0"},
      {"entropy ^ 2", "found '^' at position 8"},
      {"system(1)", "'system' is neither"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = Expression::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(Expression, BoundsLengthAndDepth) {
  EXPECT_FALSE(Expression::Parse(std::string(1001, ' ') + "1").ok());
  EXPECT_TRUE(Expression::Parse(std::string(499, '(') + "1" + std::string(499, ')')).ok());
  std::string deep;  // 1+(1+(1+... keeps one more value on the stack a level
  for (int i = 0; i < 64; ++i) deep += "1+(";
  deep += "1" + std::string(64, ')');
  EXPECT_THAT(std::string(Expression::Parse(deep).status().message()),
              HasSubstr("more than 64 values"));
}

}  // namespace
}  // namespace headcount::catalog
