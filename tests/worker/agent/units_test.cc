// What the server hands out becomes the engine's unit, and the engine's answer the stored chunk:
// checked field by field against hand-made cases.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/catalog/measurements.h"
#include "common/format/frame.h"
#include "worker/agent/chunk_builder.h"
#include "worker/agent/next_tokens.h"
#include "worker/agent/rate_meter.h"
#include "worker/agent/unit_builder.h"

namespace headcount::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Select = engine::Rule::Select;

catalog::ModelConfig Model() {
  catalog::ModelConfig model;
  model.layers = 2;
  model.heads = 3;
  model.kv_heads = 1;
  model.head_dim = 2;
  return model;
}

// Groups 5 (prefix 1 2 3) and 6 (prefix 1 2 9), two samples each, from sample 10.
std::shared_ptr<SampleRange> Samples() {
  auto range = std::make_shared<SampleRange>();
  range->manifest_digest = "digest";
  range->first = 10;
  range->prefixes = {{5, {1, 2, 3}}, {6, {1, 2, 9}}};
  for (int i = 0; i < 4; ++i) {
    v1::ManifestSample sample;
    sample.set_id("quiz/" + std::to_string(i) + "/0");
    sample.set_group(i < 2 ? 5 : 6);
    sample.add_suffix(20 + i);
    sample.add_targets(30);
    sample.add_targets(31);
    sample.set_scored(1);
    range->samples.push_back(sample);
  }
  return range;
}

v1::UnitRange Range(int64_t first, int samples, int first_rule, int rules) {
  v1::UnitRange range;
  range.set_unit(7);
  range.set_first_sample(first);
  range.set_samples(samples);
  range.set_first_rule(first_rule);
  range.set_rules(rules);
  return range;
}

std::vector<int32_t> Ids(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

TEST(BuildUnit, AScoreUnitRecordsEverythingUnderNoRule) {
  const auto built = BuildUnit(Range(10, 2, 0, 0), Samples(), {}, Model());
  ASSERT_TRUE(built.ok()) << built.status();
  const engine::Unit& unit = built->unit;
  EXPECT_THAT(Ids(unit.prefix), ElementsAre(1, 2, 3));
  ASSERT_EQ(unit.rules.size(), 1u);
  EXPECT_EQ(unit.rules[0].select, Select::kNone);
  EXPECT_TRUE(unit.record.measurements);
  EXPECT_TRUE(unit.record.head_sums);
  ASSERT_EQ(unit.rows.size(), 2u);
  EXPECT_THAT(Ids(unit.rows[1].suffix), ElementsAre(21));
  EXPECT_THAT(Ids(unit.rows[1].targets), ElementsAre(30, 31));
  EXPECT_EQ(unit.rows[1].scored, 1);
  EXPECT_EQ(unit.rows[1].rule, 0);
}

TEST(BuildUnit, GroupsThatArePackedShareWhatTheirPrefixesShare) {
  auto built = BuildUnit(Range(11, 2, 0, 0), Samples(), {}, Model());
  ASSERT_TRUE(built.ok()) << built.status();
  const BuiltUnit moved = *std::move(built);
  EXPECT_THAT(Ids(moved.unit.prefix), ElementsAre(1, 2));
  EXPECT_THAT(Ids(moved.unit.rows[0].suffix), ElementsAre(3, 21));
  EXPECT_THAT(Ids(moved.unit.rows[1].suffix), ElementsAre(9, 22));
}

TEST(BuildUnit, AnAblateUnitIsRuleMajorAndKeysEveryRow) {
  std::vector<v1::ResolvedRule> rules(5);
  for (int i = 0; i < 5; ++i) rules[i].set_index(3 + i);
  rules[0].mutable_threshold()->set_score("HONOR");  // aliases are accepted everywhere
  rules[0].mutable_threshold()->set_value(0.25f);
  rules[1].mutable_top_k()->set_score("entropy");
  rules[1].mutable_top_k()->set_k(2);
  rules[2].mutable_fixed_heads()->add_heads()->set_head(2);
  rules[2].add_layers(1);
  rules[3].mutable_random()->set_p(0.5);
  rules[3].mutable_random()->set_seed(1234);
  rules[4].set_none(true);
  rules[0].mutable_intervention()->set_scale(0.5);
  rules[1].mutable_intervention()->set_first_value(true);
  const auto built = BuildUnit(Range(10, 2, 3, 5), Samples(), rules, Model());
  ASSERT_TRUE(built.ok()) << built.status();
  const engine::Unit& unit = built->unit;
  EXPECT_FALSE(unit.record.measurements);
  EXPECT_FALSE(unit.record.head_sums);
  ASSERT_EQ(unit.rules.size(), 5u);
  EXPECT_EQ(unit.rules[0].select, Select::kThreshold);
  EXPECT_EQ(unit.rules[0].score->id, "output_norm_ln");
  EXPECT_EQ(unit.rules[0].threshold, 0.25f);
  EXPECT_THAT(unit.rules[0].layers, IsEmpty());
  EXPECT_EQ(unit.rules[1].select, Select::kTopK);
  EXPECT_EQ(unit.rules[1].top_k, 2);
  EXPECT_EQ(unit.rules[2].select, Select::kFixedHeads);
  EXPECT_EQ(unit.rules[2].heads[0].head, 2);
  EXPECT_THAT(unit.rules[2].layers, ElementsAre(0, 1));
  EXPECT_EQ(unit.rules[3].select, Select::kRandom);
  EXPECT_EQ(unit.rules[3].probability, 0.5);
  EXPECT_EQ(unit.rules[4].select, Select::kNone);
  using Kind = engine::Intervention::Kind;
  EXPECT_EQ(unit.rules[0].intervention, (engine::Intervention{Kind::kScale, 0.5f}));
  EXPECT_EQ(unit.rules[1].intervention.kind, Kind::kFirstValue);
  EXPECT_EQ(unit.rules[2].intervention.kind, Kind::kZero);
  ASSERT_EQ(unit.rows.size(), 10u);
  EXPECT_EQ(unit.rows[7].rule, 3);
  EXPECT_THAT(Ids(unit.rows[7].suffix), ElementsAre(21));
  EXPECT_EQ(unit.rules[3].seed, 1234u);
  EXPECT_EQ(unit.rows[7].sample, "quiz/1/0");
}

TEST(BuildUnit, CombinedRulesBringTheirPartsAndSteps) {
  std::vector<v1::ResolvedRule> rules(1);
  v1::CombinedRule& combined = *rules[0].mutable_combined();
  v1::ResolvedRule* part = combined.add_parts();
  part->mutable_threshold()->set_score("entropy");
  part->mutable_threshold()->add_layer_values(1);
  part->mutable_threshold()->add_layer_values(2);
  part->set_unit(v1::UNIT_KV_GROUP);
  part->set_group_score(v1::GROUP_SCORE_MIN);
  part->add_layers(1);
  combined.add_parts()->mutable_random()->set_seed(9);
  using Proto = v1::CombineStep;
  for (const auto op : {Proto::PART, Proto::PART, Proto::AND, Proto::PART, Proto::OR, Proto::PART,
                        Proto::AND_NOT, Proto::RANDOM_IN_LAYER}) {
    combined.add_steps()->set_op(op);
  }
  combined.mutable_steps(1)->set_part(1);
  combined.mutable_steps(7)->set_seed(4);
  combined.mutable_steps(7)->set_unit(v1::UNIT_KV_GROUP);
  const auto built = BuildUnit(Range(10, 1, 0, 1), Samples(), rules, Model());
  ASSERT_TRUE(built.ok()) << built.status();
  const engine::Rule& rule = built->unit.rules[0];
  EXPECT_EQ(rule.select, Select::kCombined);
  ASSERT_EQ(rule.parts.size(), 2u);
  EXPECT_THAT(rule.parts[0].layer_thresholds, ElementsAre(1, 2));
  EXPECT_EQ(rule.parts[0].unit, engine::HeadUnit::kKvGroup);
  EXPECT_EQ(rule.parts[0].group_score, engine::GroupScore::kMin);
  EXPECT_THAT(rule.parts[0].layers, ElementsAre(0, 1));
  EXPECT_EQ(rule.parts[1].seed, 9u);
  using Op = engine::CombineStep::Op;
  std::vector<Op> ops;
  for (const engine::CombineStep& step : rule.steps) ops.push_back(step.op);
  EXPECT_THAT(ops, ElementsAre(Op::kPart, Op::kPart, Op::kAnd, Op::kPart, Op::kOr, Op::kPart,
                               Op::kAndNot, Op::kRandomInLayer));
  EXPECT_EQ(rule.steps[1].part, 1);
  EXPECT_EQ(rule.steps[7].seed, 4u);
  EXPECT_EQ(rule.steps[7].unit, engine::HeadUnit::kKvGroup);
}

TEST(BuildUnit, MasksOfSamplesBecomeARuleEach) {
  std::vector<v1::ResolvedRule> rules(2);
  rules[0].mutable_sample_masks()->set_first_sample(9);
  rules[0].mutable_sample_masks()->set_masks(std::string("\x3f\x01\x22", 3));
  rules[0].mutable_intervention()->set_scale(2);
  rules[1].set_index(1);
  rules[1].mutable_random()->set_p(1);
  const auto built = BuildUnit(Range(10, 2, 0, 2), Samples(), rules, Model());
  ASSERT_TRUE(built.ok()) << built.status();
  const engine::Unit& unit = built->unit;
  ASSERT_EQ(unit.rules.size(), 3u);
  ASSERT_EQ(unit.rows.size(), 4u);
  EXPECT_EQ(unit.rows[0].rule, 0);
  EXPECT_EQ(unit.rows[1].rule, 1);
  EXPECT_EQ(unit.rows[2].rule, 2);
  EXPECT_EQ(unit.rows[3].rule, 2);
  ASSERT_EQ(unit.rules[0].heads.size(), 1u);
  EXPECT_EQ(unit.rules[0].heads[0].head, 0);
  ASSERT_EQ(unit.rules[1].heads.size(), 2u);  // bits 1 and 5 of 2 x 3
  EXPECT_EQ(unit.rules[1].heads[0].head, 1);
  EXPECT_EQ(unit.rules[1].heads[1].layer, 1);
  EXPECT_EQ(unit.rules[1].heads[1].head, 2);
  EXPECT_EQ(unit.rules[1].intervention.scale, 2);
  EXPECT_THAT(
      std::string(BuildUnit(Range(12, 1, 0, 1), Samples(), rules, Model()).status().message()),
      HasSubstr("no mask for sample 12"));
}

TEST(BuildUnit, MeansAreSharedByTheRulesThatNameThem) {
  google::protobuf::RepeatedPtrField<v1::HeadMeans> sent;
  const float numbers[] = {1, 2, 3};
  sent.Add()->set_rest(std::string(reinterpret_cast<const char*>(numbers), sizeof numbers));
  sent[0].set_first(sent[0].rest().substr(0, 4));
  const auto means = BuildMeans(sent);
  ASSERT_TRUE(means.ok()) << means.status();
  std::vector<v1::ResolvedRule> rules(1);
  rules[0].set_none(true);
  rules[0].mutable_intervention()->set_mean("job");
  const auto built = BuildUnit(Range(10, 1, 0, 1), Samples(), rules, Model(), *means);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->unit.rules[0].intervention.means, means->front());
  EXPECT_THAT(means->front()->rest, ElementsAre(1, 2, 3));
  EXPECT_THAT(means->front()->first, ElementsAre(1));
  rules[0].set_means(1);
  EXPECT_THAT(
      std::string(
          BuildUnit(Range(10, 1, 0, 1), Samples(), rules, Model(), *means).status().message()),
      HasSubstr("carries no means 1"));
  sent[0].set_rest("abc");
  EXPECT_THAT(std::string(BuildMeans(sent).status().message()), HasSubstr("3 bytes"));
}

TEST(BuildUnit, UserScoresLiveAsLongAsTheirRules) {
  std::vector<v1::ResolvedRule> rules(1);
  v1::UserScore& score = *rules[0].mutable_threshold()->mutable_user_score();
  score.set_name("mine");
  score.set_expression("output / value");
  score.set_inactive(v1::UserScore::ABOVE);
  auto built = BuildUnit(Range(10, 1, 0, 1), Samples(), rules, Model());
  ASSERT_TRUE(built.ok()) << built.status();
  rules.clear();
  const engine::Rule rule = built->unit.rules[0];
  built = absl::CancelledError("gone");
  EXPECT_EQ(rule.score->id, "mine");
  EXPECT_EQ(rule.score->inactive, catalog::Inactive::kAbove);
  rules.resize(1);
  rules[0].mutable_top_k()->mutable_user_score()->set_expression("output");
  EXPECT_THAT(
      std::string(BuildUnit(Range(10, 1, 0, 1), Samples(), rules, Model()).status().message()),
      HasSubstr("name"));
}

TEST(BuildUnit, NamesWhatDoesNotFit) {
  std::vector<v1::ResolvedRule> rules(1);
  const auto message = [&rules](const v1::UnitRange& range) {
    return std::string(BuildUnit(range, Samples(), rules, Model()).status().message());
  };
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("rule 0: selects nothing"));
  rules[0].mutable_threshold()->set_score("honesty");
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("honesty"));
  rules[0].mutable_fixed_heads()->add_heads()->set_head(3);
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("head (0, 3) is not one of 2 x 3"));
  rules[0].mutable_top_k()->set_score("entropy");
  rules[0].mutable_top_k()->set_k(4);
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("top_k is 4"));
  rules[0].set_unit(v1::UNIT_KV_GROUP);
  rules[0].mutable_top_k()->set_k(2);
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("top_k is 2, the model has 1 KV heads"));
  rules[0].clear_unit();
  rules[0].mutable_top_k()->set_k(3);
  rules[0].mutable_intervention()->set_resample(1);
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("its intervention is none"));
  rules[0].clear_intervention();
  rules[0].set_none(true);
  rules[0].add_layers(2);
  EXPECT_THAT(message(Range(10, 1, 0, 1)), HasSubstr("layer 2 is not below 2"));
  EXPECT_THAT(message(Range(10, 1, 1, 1)), HasSubstr("does not carry rule 1"));
  EXPECT_THAT(message(Range(13, 2, 0, 0)), HasSubstr("unit 7: samples [13, +2)"));
}

engine::RowResult Row(float base, std::vector<uint8_t> mask) {
  engine::RowResult row;
  row.log_likelihoods = {-base, -base - 1};
  row.greedy = {1, 0};
  for (int i = 0; i < catalog::kMeasurementCount * 6; ++i) {
    row.measurements.push_back(base + static_cast<float>(i));
  }
  row.mask = std::move(mask);
  return row;
}

float FloatAt(const std::string& bytes, size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + 4 * index, 4);
  return value;
}

TEST(BuildScoreChunk, LaysSlabsOutBySampleLayerAndHead) {
  engine::UnitResult result;
  result.rows = {Row(100, {0}), Row(200, {0})};
  result.rows[1].finite = false;
  result.rows[1].non_finite_layer = 1;
  result.rows[1].non_finite_head = 2;
  result.rows[1].measurements[5] = std::nanf("");
  result.tokens = 9;
  result.oom_backoffs = 1;
  engine::HeadSums sums;
  sums.rest.assign(12, 0.5f);
  sums.first.assign(12, 2.0f);
  sums.rest_count = 7;
  sums.first_count = 2;
  result.head_sums = sums;
  v1::RunInfo run;
  run.set_dtype("bfloat16");
  const auto bytes = BuildScoreChunk(Range(10, 2, 0, 0), result, Model(), run);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, *BuildScoreChunk(Range(10, 2, 0, 0), result, Model(), run));
  v1::ScoreChunk chunk;
  ASSERT_TRUE(format::Unframe(format::FrameKind::kScoreChunk, *bytes, &chunk).ok());
  EXPECT_EQ(chunk.first_sample(), 10);
  EXPECT_EQ(chunk.head_dim(), 2);
  ASSERT_EQ(chunk.slabs_size(), catalog::kMeasurementCount);
  EXPECT_EQ(chunk.slabs(4).measurement(), "output");
  ASSERT_EQ(chunk.slabs(4).values().size(), 2u * 6 * 4);
  EXPECT_EQ(FloatAt(chunk.slabs(4).values(), 5), 100 + 4 * 6 + 5);   // sample 0, layer 1, head 2
  EXPECT_EQ(FloatAt(chunk.slabs(4).values(), 6), 200 + 4 * 6);       // sample 1, layer 0, head 0
  EXPECT_TRUE(std::isnan(FloatAt(chunk.slabs(0).values(), 6 + 5)));  // kept as it was measured
  EXPECT_THAT(chunk.results(0).log_likelihoods(), ElementsAre(-100, -101));
  EXPECT_THAT(chunk.results(0).greedy(), ElementsAre(true, false));
  EXPECT_THAT(chunk.results(0).mask(), IsEmpty());
  EXPECT_TRUE(chunk.results(1).non_finite());
  EXPECT_EQ(chunk.results(1).non_finite_head(), 2);
  EXPECT_EQ(FloatAt(chunk.head_sums().first(), 11), 2.0f);
  EXPECT_EQ(chunk.head_sums().rest_count(), 7);
  EXPECT_EQ(chunk.run().dtype(), "bfloat16");
  EXPECT_EQ(chunk.run().tokens(), 9);
  EXPECT_EQ(chunk.run().oom_backoffs(), 1);
}

TEST(BuildAblateChunk, CountsZeroedHeadsOfEachRule) {
  engine::UnitResult result;
  result.rows = {Row(1, {0b000001}), Row(2, {0b100001}), Row(3, {0}), Row(4, {0b000010})};
  const auto bytes = BuildAblateChunk(Range(10, 2, 4, 2), result, Model(), {});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  v1::AblateChunk chunk;
  ASSERT_TRUE(format::Unframe(format::FrameKind::kAblateChunk, *bytes, &chunk).ok());
  EXPECT_EQ(chunk.first_rule(), 4);
  EXPECT_EQ(chunk.rules(), 2);
  ASSERT_EQ(chunk.results_size(), 4);
  EXPECT_EQ(chunk.results(1).mask(), std::string("\x21"));
  ASSERT_EQ(chunk.zeroed().size(), 2u * 6 * 4);
  std::vector<uint32_t> zeroed(12);
  std::memcpy(zeroed.data(), chunk.zeroed().data(), 48);
  EXPECT_THAT(zeroed, ElementsAre(2, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0));
}

// Spells a token: "<7>".
absl::StatusOr<std::string> Spell(std::span<const int32_t> ids, bool) {
  std::string out;
  for (const int32_t id : ids) absl::StrAppend(&out, "<", id, ">");
  return out;
}

v1::RowRecord RecordAll() {
  v1::RowRecord record;
  record.set_measurements(true);
  record.set_first_weights(true);
  record.set_next_tokens(2);
  return record;
}

TEST(BuildUnit, KeepsWhatThePlanRecords) {
  std::vector<v1::ResolvedRule> rules(2);
  rules[0].set_none(true);
  rules[1].set_index(1);
  rules[1].mutable_random()->set_p(.5);
  const auto built = BuildUnit(Range(10, 2, 0, 2), Samples(), rules, Model(), {}, RecordAll());
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(built->unit.record.measurements);
  EXPECT_FALSE(built->unit.record.head_sums);
  std::vector<bool> next, weights;
  for (const engine::Row& row : built->unit.rows) {
    next.push_back(row.next_token);
    weights.push_back(row.first_weights);
  }
  EXPECT_THAT(next, ElementsAre(true, true, true, true));
  EXPECT_THAT(weights, ElementsAre(true, true, false, false)) << "of the first rule alone";
  const auto plain = BuildUnit(Range(10, 2, 0, 2), Samples(), rules, Model());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE(plain->unit.record.measurements);
  EXPECT_FALSE(plain->unit.rows[0].next_token || plain->unit.rows[0].first_weights);
}

TEST(BuildAblateChunk, KeepsWhatThePlanRecords) {
  catalog::ModelConfig model = Model();
  model.vocab_size = 3;
  std::vector<v1::ResolvedRule> rules(2);
  rules[0].set_none(true);
  rules[1].set_index(1);
  rules[1].mutable_random()->set_p(.5);
  const v1::RowRecord record = RecordAll();
  const auto built = BuildUnit(Range(10, 1, 0, 2), Samples(), rules, model, {}, record);
  ASSERT_TRUE(built.ok()) << built.status();
  engine::UnitResult result;
  result.rows = {Row(1, {0}), Row(2, {1})};
  result.rows[0].first_weights = {1, .5f, .25f, .125f};
  result.rows[0].next_token = {std::log(.5f), std::log(.25f), std::log(.25f)};
  result.rows[1].next_token = {std::log(.25f), std::log(.25f), std::log(.5f)};
  const Decoder spell = Spell;
  const Recording recording{record, built->unit, spell};
  const auto bytes = BuildAblateChunk(Range(10, 1, 0, 2), result, model, {}, &recording);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  v1::AblateChunk chunk;
  ASSERT_TRUE(format::Unframe(format::FrameKind::kAblateChunk, *bytes, &chunk).ok());
  ASSERT_EQ(chunk.slabs_size(), catalog::kMeasurementCount);
  EXPECT_EQ(FloatAt(chunk.slabs(4).values(), 6 + 5), 2 + 4 * 6 + 5);  // rule 1, layer 1, head 2
  const v1::SampleResult& baseline = chunk.results(0);
  EXPECT_THAT(baseline.input_texts(), ElementsAre("<1>", "<2>", "<3>", "<20>"));
  EXPECT_EQ(FloatAt(baseline.first_weights(), 2), .25f);
  EXPECT_THAT(baseline.next_tokens().tokens(), ElementsAre(0, 1)) << "of equals the lower first";
  EXPECT_EQ(baseline.next_tokens().divergence(), 0);
  EXPECT_NEAR(baseline.next_tokens().entropy(), 1.5 * std::log(2), 1e-6);
  const v1::SampleResult& changed = chunk.results(1);
  EXPECT_THAT(changed.input_texts(), IsEmpty());
  EXPECT_THAT(changed.first_weights(), IsEmpty());
  EXPECT_THAT(changed.next_tokens().tokens(), ElementsAre(2, 0));
  EXPECT_THAT(changed.next_tokens().texts(), ElementsAre("<2>", "<0>"));
  EXPECT_EQ(changed.next_tokens().log_likelihoods(0), std::log(.5f));
  // .5 log(.5 / .25) + .25 log(.25 / .5)
  EXPECT_NEAR(changed.next_tokens().divergence(), .25 * std::log(2), 1e-6);

  result.rows[1].next_token.pop_back();
  EXPECT_TRUE(absl::IsInternal(
      BuildAblateChunk(Range(10, 1, 0, 2), result, model, {}, &recording).status()));
}

TEST(SummariseNextTokens, CertainAndBrokenDistributions) {
  const std::vector<float> certain = {0, -std::numeric_limits<float>::infinity()};
  const std::vector<float> even = {std::log(.5f), std::log(.5f)};
  const auto sure = SummariseNextTokens(certain, certain, 5, Spell);
  ASSERT_TRUE(sure.ok()) << sure.status();
  EXPECT_EQ(sure->entropy(), 0);
  EXPECT_EQ(sure->divergence(), 0);
  EXPECT_THAT(sure->tokens(), ElementsAre(0, 1)) << "no more than there are";
  const auto lost = SummariseNextTokens(certain, even, 1, Spell);
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_TRUE(std::isinf(lost->divergence())) << "what was possible no longer is";
  const std::vector<float> broken = {std::nanf(""), 0};
  const auto nan = SummariseNextTokens(broken, even, 1, Spell);
  ASSERT_TRUE(nan.ok()) << nan.status();
  EXPECT_TRUE(std::isnan(nan->entropy()) && std::isnan(nan->divergence()));
  EXPECT_THAT(nan->tokens(), IsEmpty());
}

TEST(BuildChunk, RefusesAnAnswerOfAnotherShape) {
  engine::UnitResult result;
  result.rows = {Row(1, {0})};
  EXPECT_TRUE(absl::IsInternal(BuildScoreChunk(Range(10, 2, 0, 0), result, Model(), {}).status()));
  EXPECT_TRUE(absl::IsInternal(BuildAblateChunk(Range(10, 1, 0, 2), result, Model(), {}).status()));
  result.rows[0].measurements.pop_back();
  EXPECT_TRUE(absl::IsInternal(BuildScoreChunk(Range(10, 1, 0, 0), result, Model(), {}).status()));
  result.rows[0].mask = {0, 0};
  EXPECT_TRUE(absl::IsInternal(BuildAblateChunk(Range(10, 1, 0, 1), result, Model(), {}).status()));
}

TEST(RateMeter, ForgetsWhatIsOlderThanAMinuteOfComputing) {
  RateMeter meter;
  EXPECT_EQ(meter.rows_per_second(), 0);
  meter.Add(2, 100, 4);
  EXPECT_EQ(meter.tokens_per_second(), 50);
  EXPECT_EQ(meter.rows_per_second(), 2);
  for (int i = 0; i < 60; ++i) meter.Add(1, 10, 1);
  EXPECT_NEAR(meter.tokens_per_second(), 10, 1e-9);
  EXPECT_NEAR(meter.rows_per_second(), 1, 1e-9);
}

}  // namespace
}  // namespace headcount::agent
