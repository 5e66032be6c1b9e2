// The text form of rules: what each form means, and that every slip is answered with what was
// written.

#include "client/cli/rule_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace headcount::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RuleText, ThresholdByValueTakesTheInactiveSideOnly) {
  const auto below = ParseRule("output_norm_ln<0.7", "");
  ASSERT_TRUE(below.ok()) << below.status();
  EXPECT_EQ(below->threshold().score(), "output_norm_ln");
  EXPECT_EQ(below->threshold().value(), 0.7);
  const auto above = ParseRule("first_token_weight>9e-1", "");
  ASSERT_TRUE(above.ok()) << above.status();
  EXPECT_EQ(above->threshold().value(), 0.9);
  const auto wrong = ParseRule("output_norm_ln>0.7", "");
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("output_norm_ln<VALUE"));
}

TEST(RuleText, TheAuthorsNamesAreUnderstood) {
  const auto rule = ParseRule("HONOR<0.7", "");
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_EQ(rule->threshold().score(), "output_norm_ln");
}

TEST(RuleText, NotANumberIsPassedOnToBeRefusedByTheServer) {
  const auto rule = ParseRule("entropy<nan", "");
  ASSERT_TRUE(rule.ok());
  EXPECT_TRUE(std::isnan(rule->threshold().value()));
}

TEST(RuleText, FractionNeedsAScoreJob) {
  const auto rule = ParseRule("entropy@0.15", "projects/default/jobs/a");
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_EQ(rule->threshold().fraction(), 0.15);
  EXPECT_EQ(rule->threshold().score_job(), "projects/default/jobs/a");
  EXPECT_THAT(std::string(ParseRule("entropy@0.15", "").status().message()),
              HasSubstr("--score-job"));
}

TEST(RuleText, TopKFixedHeadsAndRandom) {
  EXPECT_EQ(ParseRule("value_norm:top=2", "")->threshold().top_k(), 2);
  const auto heads = ParseRule("heads=0.3,4.7", "");
  ASSERT_TRUE(heads.ok());
  ASSERT_EQ(heads->fixed_heads().heads_size(), 2);
  EXPECT_EQ(heads->fixed_heads().heads(1).layer(), 4);
  EXPECT_EQ(heads->fixed_heads().heads(1).head(), 7);
  const auto random = ParseRule("random=0.25,seed=9", "");
  ASSERT_TRUE(random.ok());
  EXPECT_EQ(random->random().p(), 0.25);
  EXPECT_EQ(random->random().seed(), 9u);
}

TEST(RuleText, NamesExpressionsAndControls) {
  const auto weak = ParseRule("weak := output_norm_ln<0.7", "");
  ASSERT_TRUE(weak.ok()) << weak.status();
  EXPECT_EQ(weak->name(), "weak");
  EXPECT_EQ(weak->threshold().value(), 0.7);
  const auto top = ParseRule("t:=entropy:top=2", "");
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ(top->name(), "t");
  EXPECT_EQ(top->threshold().top_k(), 2);
  const auto both = ParseRule("both := weak and not (sink or t)", "");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->name(), "both");
  EXPECT_EQ(both->expression(), "weak and not (sink or t)");
  EXPECT_EQ(ParseRule("weak or sink", "")->expression(), "weak or sink");
  const auto control = ParseRule("random_in_layer(weak),seed=4", "");
  ASSERT_TRUE(control.ok()) << control.status();
  EXPECT_EQ(control->random_in_layer().rule(), "weak");
  EXPECT_EQ(control->random_in_layer().seed(), 4u);
  const auto full = [](const std::string& job) { return "jobs/" + job; };
  const auto fixed = ParseRule("static_heads(k3v9:12)", "", full);
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_EQ(fixed->static_heads().job(), "jobs/k3v9");
  EXPECT_EQ(fixed->static_heads().rule(), 12);
  const auto shuffled = ParseRule("shuffled(k3v9:0),seed=2", "", full);
  ASSERT_TRUE(shuffled.ok()) << shuffled.status();
  EXPECT_EQ(shuffled->shuffled().job(), "jobs/k3v9");
  EXPECT_EQ(shuffled->shuffled().seed(), 2u);
}

TEST(RuleText, UserScores) {
  const auto mine = ParseUserScore(" mine = max(output, value) / entropy , above");
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_EQ(mine->name(), "mine");
  EXPECT_EQ(mine->expression(), "max(output, value) / entropy");
  EXPECT_EQ(mine->inactive(), v1::UserScore::ABOVE);
  const v1::UserScore known[] = {*mine};
  EXPECT_EQ(ParseRule("mine>2", "", {}, known)->threshold().score(), "mine");
  EXPECT_THAT(std::string(ParseRule("mine<2", "", {}, known).status().message()),
              HasSubstr("mine>VALUE"));
  for (const char* text :
       {"", "mine", "mine = output", "mine = output, sideways", "output, below"}) {
    EXPECT_EQ(ParseUserScore(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(RuleText, SeveralValuesAreOneALayer) {
  const auto rule = ParseRule("entropy<1,2.5,3", "");
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_THAT(rule->threshold().layer_values().values(), ElementsAre(1, 2.5, 3));
}

TEST(RuleText, SlipsNameTheText) {
  for (const char* text : {"",
                           "entropy",
                           "entropy<",
                           "entropy<x",
                           "entropie<1",
                           "heads=",
                           "heads=3",
                           "heads=1.2.3",
                           "heads=a.b",
                           "random=",
                           "random=x",
                           "random=.1,sed=2",
                           "entropy:best=3",
                           "entropy:top=",
                           ":= entropy<1",
                           "a :=",
                           "random_in_layer(a",
                           "random_in_layer(a),sed=1",
                           "entropy<1,",
                           "random=.1,seed=x",
                           "static_heads(a)",
                           "static_heads(:1)",
                           "shuffled(a:x)",
                           "static_heads(a:1),seed=1"}) {
    const auto rule = ParseRule(text, "job");
    EXPECT_EQ(rule.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(InterventionText, EveryFormAndWhatIsNone) {
  EXPECT_TRUE(ParseIntervention("zero")->zero());
  EXPECT_TRUE(ParseIntervention("first_value")->first_value());
  EXPECT_EQ(ParseIntervention("scale=-0.5")->scale(), -0.5);
  EXPECT_EQ(ParseIntervention("mean=k3v9")->mean(), "k3v9");
  EXPECT_TRUE(ParseIntervention("mean")->has_mean());
  for (const char* text : {"", "scale", "scale=", "scale=x", "Zero", "mean="}) {
    const auto intervention = ParseIntervention(text);
    EXPECT_EQ(intervention.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(intervention.status().message()), HasSubstr("--intervention"));
  }
}

TEST(Integers, RangesAndLists) {
  EXPECT_THAT(*ParseIntegers("--layers", "0-3,7"), ElementsAre(0, 1, 2, 3, 7));
  EXPECT_THAT(*ParseIntegers("--layers", "5"), ElementsAre(5));
  for (const char* text : {"", "3-1", "a", "1-2-3", "-", "1,,2"})
    EXPECT_FALSE(ParseIntegers("--layers", text).ok()) << text;
}

}  // namespace
}  // namespace headcount::cli
