// A sweep over prompts that were continued: its baseline is the ablate stage's own, answers are
// judged by each of the task's metrics, and shares are means over the steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/errors.h"
#include "server/results/curves.h"
#include "server/results/samples.h"
#include "server/results/unit_counts.h"
#include "tests/server/results/fake_job.h"

namespace headcount::results {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 2;
constexpr int kHeads = 4;
constexpr const char* kFirst = "exact_match,first";
constexpr const char* kLast = "exact_match,last";

// Three sums, whose answers are the first or the last number of the text.
v1::Manifest Sums() {
  v1::Manifest manifest;
  manifest.mutable_generation()->set_max_new_tokens(3);
  for (const auto& [name, place] : {std::pair(kFirst, 0), std::pair(kLast, -1)}) {
    manifest.add_metrics(name);
    v1::AnswerMetric* metric = manifest.add_answer_metrics();
    metric->set_name(name);
    v1::AnswerFilter* filter = metric->add_filters();
    filter->set_kind(v1::AnswerFilter::REGEX);
    filter->set_pattern("[0-9]+");
    filter->set_group_select(place);
    filter->set_fallback("none");
  }
  for (int i = 0; i < 3; ++i) {
    v1::ManifestDocument* document = manifest.add_documents();
    document->set_id("sums/" + std::to_string(i));
    document->set_subtask("sums");
    document->set_gold(-1);
    document->set_gold_text(std::to_string(i));
    manifest.add_groups()->set_group(i);
    v1::ManifestSample* sample = manifest.add_samples();
    sample->set_id(document->id() + "/0");
    sample->set_document(i);
    sample->set_group(i);
    sample->add_suffix(7);
  }
  return manifest;
}

v1::SampleResult Row(const std::string& text, double share, char mask = 1) {
  v1::SampleResult row;
  row.add_tokens(5);
  row.set_text(text);
  row.set_share_zeroed(share);
  row.set_mask(std::string(1, mask));
  return row;
}

v1::AblateChunk Chunk() {
  v1::AblateChunk chunk;
  chunk.set_samples(3);
  chunk.set_rules(2);
  chunk.set_layers(kLayers);
  chunk.set_heads(kHeads);
  chunk.set_zeroed(std::string(2 * kLayers * kHeads * 4, '\0'));
  *chunk.add_results() = Row("0 and 4", 0, 0);  // right by the first number
  *chunk.add_results() = Row("1", 0, 0);        // right by both
  *chunk.add_results() = Row("no number", 0, 0);
  *chunk.add_results() = Row("4 then 0", .5);
  *chunk.add_results() = Row("2 or 3", .25);
  *chunk.add_results() = Row("2", .375);
  return chunk;
}

class GeneratedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    job_.job().mutable_sweep();
    v1::StagePlan plan;
    plan.set_documents(3);
    v1::SampleBlock* block = plan.add_sample_blocks();
    block->set_samples(3);
    block->set_documents(3);
    job_.Plan(store::Stage::kScore, plan, manifest_);
    v1::ScoreChunk read;
    read.set_samples(3);
    read.set_layers(kLayers);
    read.set_heads(kHeads);
    for (int i = 0; i < 3; ++i) read.add_results();
    job_.Store(0, read);
    plan.set_rules_per_unit(2);
    plan.add_rules()->set_none(true);
    v1::ResolvedRule* rule = plan.add_rules();
    rule->set_label("entropy");
    rule->set_nominal_fraction(.3);
    rule->mutable_threshold()->set_score("entropy");
    plan_ = plan;
  }
  void Generate() {
    job_.Plan(store::Stage::kAblate, plan_, manifest_);
    job_.Store(0, Chunk());
  }
  absl::StatusOr<v1::Curves> Curves(const std::string& metric = "") {
    v1::GetCurvesRequest request;
    request.set_job(FakeJob::kName);
    request.set_metric(metric);
    return GetCurves(job_, job_.artifacts(), request);
  }
  std::vector<v1::SampleRecord> Samples() {
    v1::ListSamplesRequest request;
    request.set_job(FakeJob::kName);
    auto stream = SampleStream::Open(job_, job_.artifacts(), request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    std::vector<v1::SampleRecord> records;
    while (true) {
      auto record = (*stream)->Next();
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok() || !record->has_value()) return records;
      records.push_back(**record);
    }
  }

  const v1::Manifest manifest_ = Sums();
  FakeJob job_;
  v1::StagePlan plan_;
};

TEST_F(GeneratedTest, TheBaselineIsWhatWasWrittenWithoutARule) {
  EXPECT_EQ(ReasonOf(Curves().status()), "RESULTS_NOT_READY");  // prompts were only read
  Generate();
  const auto curves = Curves();
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_EQ(curves->metric(), kFirst);
  EXPECT_DOUBLE_EQ(curves->baseline().accuracy(), 2.0 / 3);
  EXPECT_EQ(curves->baseline().share_zeroed(), 0);
  ASSERT_EQ(curves->curves_size(), 1);
  const v1::CurvePoint& point = curves->curves(0).points(1);
  EXPECT_EQ(point.rule(), 0);
  EXPECT_DOUBLE_EQ(point.accuracy(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(point.share_zeroed(), .375);  // of steps, not of the last step's mask
  EXPECT_EQ(point.flips_to_wrong(), 2);
  EXPECT_EQ(point.flips_to_right(), 1);
}

TEST_F(GeneratedTest, CurvesAreByTheMetricThatIsAskedFor) {
  Generate();
  const auto last = Curves(kLast);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->curves(0).metric(), kLast);
  EXPECT_DOUBLE_EQ(last->baseline().accuracy(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(last->curves(0).points(1).accuracy(), 2.0 / 3);
  const absl::Status refused = Curves("acc").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("exact_match,first; exact_match,last"));
}

TEST_F(GeneratedTest, SamplesShowTextAndAnswers) {
  Generate();
  const auto records = Samples();
  ASSERT_EQ(records.size(), 6u);
  EXPECT_EQ(records[0].rule(), -1);
  EXPECT_EQ(records[0].text(), "0 and 4");
  EXPECT_EQ(records[0].gold_text(), "0");
  ASSERT_EQ(records[0].answers_size(), 2);
  EXPECT_EQ(records[0].answers(1).metric(), kLast);
  EXPECT_EQ(records[0].answers(1).text(), "4");
  EXPECT_TRUE(records[0].answers(0).correct());
  EXPECT_FALSE(records[0].answers(1).correct());
  EXPECT_TRUE(records[0].correct());
  EXPECT_EQ(records[2].answers(0).text(), "none");
  EXPECT_EQ(records[3].share_zeroed(), .5);
  EXPECT_EQ(records[3].prediction(), -1);
}

TEST_F(GeneratedTest, UnitsCountWhatWasAnsweredAlone) {
  const v1::SampleBlock& block = plan_.sample_blocks(0);
  const auto counts = CountUnit(manifest_, block, Chunk(), 1);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->rules(0).rule(), -1);
  EXPECT_EQ(counts->rules(0).correct(), 2);
  EXPECT_EQ(counts->rules(1).correct(), 1);
  EXPECT_DOUBLE_EQ(counts->rules(1).share_sum(), 1.125);
  v1::ScoreChunk read;
  read.set_samples(3);
  read.set_layers(kLayers);
  read.set_heads(kHeads);
  for (int i = 0; i < 3; ++i) read.add_results();
  EXPECT_EQ(CountUnit(manifest_, block, read)->rules(0).documents(), 0);
}

TEST_F(GeneratedTest, ChecksWhatARowSaysOfItsText) {
  const auto error = [this](const v1::AblateChunk& chunk) {
    return std::string(CountUnit(manifest_, plan_.sample_blocks(0), chunk, 1).status().message());
  };
  v1::AblateChunk chunk = Chunk();
  chunk.mutable_results(1)->clear_tokens();
  EXPECT_THAT(error(chunk), HasSubstr("sample sums/1/0: must be 1 to 3 new tokens"));
  chunk.mutable_results(1)->set_non_finite(true);  // it may have ended before the first
  EXPECT_EQ(error(chunk), "");
  for (int i = 0; i < 4; ++i) chunk.mutable_results(2)->add_tokens(1);
  EXPECT_THAT(error(chunk), HasSubstr("sums/2/0: must be 1 to 3 new tokens"));
  chunk = Chunk();
  chunk.mutable_results(3)->set_share_zeroed(1.5);
  EXPECT_THAT(error(chunk), HasSubstr("results.share_zeroed: sample sums/0/0: must be in [0, 1]"));
  chunk.mutable_results(3)->set_share_zeroed(std::nan(""));
  EXPECT_THAT(error(chunk), HasSubstr("must be in [0, 1]"));
}

TEST_F(GeneratedTest, ATextThatIsNotFiniteIsWrong) {
  plan_.mutable_rules(1)->set_label("entropy");
  job_.Plan(store::Stage::kAblate, plan_, manifest_);
  v1::AblateChunk chunk = Chunk();
  chunk.mutable_results(1)->set_non_finite(true);
  job_.Store(0, chunk);
  const auto curves = Curves();
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_DOUBLE_EQ(curves->baseline().accuracy(), 1.0 / 3);
  EXPECT_EQ(curves->baseline().non_finite_documents(), 1);
}

// A multiple-choice task's curves by length-normalised answers.
TEST(ChoiceMetrics, AccNormIsAMetricLikeAnother) {
  v1::Manifest manifest;
  manifest.add_metrics("acc");
  manifest.add_metrics("acc_norm");
  v1::ManifestDocument* document = manifest.add_documents();
  document->set_id("t/0");
  document->set_subtask("t");
  document->set_gold(1);
  document->add_choice_lengths(2);
  document->add_choice_lengths(40);
  manifest.add_groups();
  v1::ManifestSample* sample = manifest.add_samples();
  sample->set_id("t/0/0");
  sample->add_suffix(1);
  sample->add_choices(0);
  sample->add_choices(1);
  FakeJob job;
  job.job().mutable_score();
  v1::StagePlan plan;
  plan.set_documents(1);
  plan.add_sample_blocks()->set_samples(1);
  job.Plan(store::Stage::kScore, plan, manifest);
  v1::ScoreChunk chunk;
  chunk.set_samples(1);
  chunk.set_layers(1);
  chunk.set_heads(1);
  v1::SampleResult* row = chunk.add_results();
  row->add_log_likelihoods(-4);
  row->add_log_likelihoods(-5);
  job.Store(0, chunk);
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  EXPECT_EQ(GetCurves(job, job.artifacts(), request)->baseline().accuracy(), 0);
  EXPECT_EQ(GetCurves(job, job.artifacts(), request)->baseline().accuracy_norm(), 1);
  request.set_metric("acc_norm");
  EXPECT_EQ(GetCurves(job, job.artifacts(), request)->baseline().accuracy(), 1);
}

}  // namespace
}  // namespace headcount::results
