// Rule algebra: what parses to what, the position of every slip, names that lead nowhere or in a
// circle, and rules made whole.

#include "server/plan/rule_expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "google/protobuf/text_format.h"

namespace headcount::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Rules = google::protobuf::RepeatedPtrField<v1::Rule>;

// Postfix, in one line.
std::string Postfix(std::string_view text) {
  const auto steps = ParseRuleExpression(text);
  if (!steps.ok()) return std::string(steps.status().message());
  std::string out;
  for (const ExpressionStep& step : *steps) {
    static constexpr const char* kOps[] = {"", "and", "or", "andnot"};
    absl::StrAppend(
        &out, out.empty() ? "" : " ",
        step.op == ExpressionStep::Op::kName ? step.name.c_str() : kOps[static_cast<int>(step.op)]);
  }
  return out;
}

TEST(RuleExpression, AndBindsMoreThanOrAndBothGoFromTheLeft) {
  EXPECT_EQ(Postfix("a"), "a");
  EXPECT_EQ(Postfix("a and b"), "a b and");
  EXPECT_EQ(Postfix("a or b and c"), "a b c and or");
  EXPECT_EQ(Postfix("a and b or c"), "a b and c or");
  EXPECT_EQ(Postfix("(a or b) and not c"), "a b or c andnot");
  EXPECT_EQ(Postfix("a and not b and not c"), "a b andnot c andnot");
  EXPECT_EQ(Postfix("a and not (b or c)"), "a b c or andnot");
  EXPECT_EQ(Postfix("\torder  and android or nothing "), "order android and nothing or");
}

TEST(RuleExpression, SlipsAreNamedWithTheirPosition) {
  EXPECT_EQ(Postfix(""), "expected a rule's name, found the end at position 0");
  EXPECT_EQ(Postfix("a and"), "expected a rule's name, found the end at position 5");
  EXPECT_EQ(Postfix("a b"), "expected 'and', 'or' or the end, found 'b' at position 2");
  EXPECT_EQ(Postfix("a & b"), "expected 'and', 'or' or the end, found '&' at position 2");
  EXPECT_EQ(Postfix("(a or b"), "expected ')', found the end at position 7");
  EXPECT_EQ(Postfix("a)"), "expected 'and', 'or' or the end, found ')' at position 1");
  EXPECT_EQ(Postfix("a or not b"),
            "expected a rule's name ('not' may only follow 'and'), found 'not' at position 5");
  EXPECT_EQ(Postfix("a and or"), "expected a rule's name, found 'or' at position 6");
  EXPECT_EQ(Postfix("a and 1b"), "expected a rule's name, found '1b' at position 6");
  EXPECT_EQ(Postfix("a and B"), "expected a rule's name, found 'B' at position 6");
  EXPECT_EQ(Postfix(std::string(1001, 'a')), "has 1001 characters, at most 1000 are allowed");
  EXPECT_THAT(Postfix(std::string(400, '(') + "a" + std::string(400, ')')),
              HasSubstr("fewer parentheses"));
}

Rules Parse(const std::string& text) {
  v1::AblateSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec.rules();
}

std::string Refused(const std::string& rules) {
  const absl::Status status = CheckReferences(Parse(rules), "rules");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << rules;
  return absl::StrCat(FieldOf(status).value_or("none"), ": ", std::string(status.message()));
}

TEST(RuleReferences, NamesLeadSomewhereAndInNoCircle) {
  EXPECT_TRUE(CheckReferences(Parse("rules { name: 'a' random { p: .5 } }"
                                    "rules { name: 'c' expression: 'a and b' }"
                                    "rules { name: 'b' random_in_layer { rule: 'a' } }"
                                    "rules { expression: 'c or c' }"),
                              "rules")
                  .ok());
  EXPECT_THAT(Refused("rules { name: 'a' random {} } rules { name: 'a' random {} }"),
              HasSubstr("rules[1].name: is the name of rule 0 already"));
  EXPECT_THAT(Refused("rules { name: 'a' random {} } rules { expression: 'a and b' }"),
              ::testing::AllOf(HasSubstr("rules[1].expression"),
                               HasSubstr("is not the name of a rule of this job")));
  EXPECT_THAT(Refused("rules { random_in_layer { rule: 'b' } }"),
              HasSubstr("rules[0].random_in_layer.rule"));
  EXPECT_THAT(Refused("rules { name: 'a' shuffled { job: 'j' } } rules { expression: 'a' }"),
              HasSubstr("is a shuffled rule"));
  EXPECT_THAT(Refused("rules { name: 'a' expression: 'a or a' }"), HasSubstr("made of itself"));
  EXPECT_THAT(
      Refused("rules { name: 'a' expression: 'b' } rules { name: 'b' expression: 'c' }"
              "rules { name: 'c' random_in_layer { rule: 'a' } }"),
      ::testing::AllOf(HasSubstr("rules[2].random_in_layer.rule"), HasSubstr("made of itself")));
  std::string many = "rules { name: 'r0' random { p: .5 } } ";
  for (int i = 1; i <= 6; ++i) {
    absl::StrAppend(&many, "rules { name: 'r", i, "' expression: 'r", i - 1, " or r", i - 1,
                    "' } ");
  }
  EXPECT_THAT(Refused(many),
              ::testing::AllOf(HasSubstr("rules[6].expression"), HasSubstr("at most 32 rules")));
}

TEST(RuleReferences, RulesAreMadeWhole) {
  const Rules rules = Parse(
      "rules { name: 'both' expression: 'a and not c' intervention { scale: 2 } }"
      "rules { name: 'a' threshold { score: 'entropy' value: 1 } intervention { scale: 3 } }"
      "rules { name: 'c' random_in_layer { rule: 'a' seed: 7 } unit: UNIT_KV_GROUP }"
      "rules { expression: 'both or a' }");
  std::vector<v1::ResolvedRule> resolved(4);
  resolved[1].mutable_threshold()->set_score("entropy");
  resolved[1].mutable_intervention()->set_scale(3);
  resolved[0].add_layers(1);
  resolved[0].add_layers(2);
  resolved[2].add_layers(2);
  resolved[2].add_layers(5);
  ResolveReferences(rules, &resolved);
  EXPECT_TRUE(resolved[1].has_threshold());
  EXPECT_THAT(resolved[0].layers(), ElementsAre(1, 2));

  const v1::CombinedRule& both = resolved[0].combined();  // a a same_count andnot
  ASSERT_EQ(both.parts_size(), 2);
  EXPECT_EQ(both.parts(0).threshold().score(), "entropy");
  EXPECT_FALSE(both.parts(0).has_intervention());
  EXPECT_THAT(both.parts(0).layers(), IsEmpty());
  EXPECT_THAT(both.parts(1).layers(), ElementsAre(2, 5)) << "as the rule it is part of may act";
  ASSERT_EQ(both.steps_size(), 4);
  EXPECT_EQ(both.steps(1).part(), 1);
  EXPECT_EQ(both.steps(2).op(), v1::CombineStep::RANDOM_IN_LAYER);
  EXPECT_EQ(both.steps(2).seed(), 7u);
  EXPECT_EQ(both.steps(2).unit(), v1::UNIT_KV_GROUP);
  EXPECT_EQ(both.steps(3).op(), v1::CombineStep::AND_NOT);

  const v1::CombinedRule& last = resolved[3].combined();  // both's, then a, then or
  ASSERT_EQ(last.parts_size(), 3);
  EXPECT_THAT(last.parts(0).layers(), ElementsAre(1, 2));
  EXPECT_THAT(last.parts(1).layers(), ElementsAre(2));
  EXPECT_THAT(last.parts(2).layers(), IsEmpty());
  ASSERT_EQ(last.steps_size(), 6);
  EXPECT_EQ(last.steps(4).part(), 2);
  EXPECT_EQ(last.steps(5).op(), v1::CombineStep::OR);
}

TEST(RuleReferences, PartsWithoutALayerInCommonNeverAct) {
  const Rules rules = Parse(
      "rules { name: 'a' random { p: 1 } } rules { name: 'b' expression: 'a' }"
      "rules { expression: 'b' }");
  std::vector<v1::ResolvedRule> resolved(3);
  resolved[0].mutable_random()->set_p(1);
  resolved[0].add_layers(0);
  resolved[1].add_layers(1);
  ResolveReferences(rules, &resolved);
  EXPECT_TRUE(resolved[2].combined().parts(0).none());
}

TEST(RuleNames, AreShortAndPlain) {
  for (const char* good : {"a", "weak_2", "nothing"}) EXPECT_TRUE(IsRuleName(good)) << good;
  for (const char* bad : {"", "and", "or", "not", "A", "1a", "_a", "a-b", "a b"}) {
    EXPECT_FALSE(IsRuleName(bad)) << bad;
  }
  EXPECT_FALSE(IsRuleName(std::string(41, 'a')));
}

}  // namespace
}  // namespace headcount::plan
