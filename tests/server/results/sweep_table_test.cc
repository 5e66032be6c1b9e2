// Sweeps over several models and tasks: the jobs that they are made of, and their curves side by
// side.

#include "server/results/sweep_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "common/base/errors.h"
#include "google/protobuf/text_format.h"
#include "server/results/child_name.h"
#include "server/results/score_table.h"
#include "server/results/sweep_children.h"
#include "tests/server/results/fake_job.h"

namespace headcount::results {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

v1::SweepSpec Spec(const std::string& text) {
  v1::SweepSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

v1::Job JobOf(const std::string& text) {
  v1::Job job;
  job.set_name(FakeJob::kName);
  *job.mutable_sweep() = Spec(text);
  return job;
}

constexpr char kSides[] = R"(workload { model: 'a' task { task: 'piqa' } } scores: 'HONOR'
  scores: 'random' models: 'b' tasks { task: 'mmlu' split: 'validation' })";

TEST(SweepChildren, EveryModelRunsEveryTask) {
  const v1::Job job = JobOf(kSides);
  const std::vector<SweepChild> children = SweepChildren(job);
  ASSERT_EQ(children.size(), 4u);
  EXPECT_EQ(CountChildren(job.sweep()), 4);
  std::vector<std::string> sides;
  for (const SweepChild& child : children) {
    EXPECT_FALSE(HasChildren(child.job.sweep())) << "it is run itself";
    const v1::Workload& workload = child.job.sweep().workload();
    sides.push_back(workload.model() + " " + TaskLabel(workload));
  }
  EXPECT_THAT(sides, ElementsAre("a piqa", "a mmlu:validation", "b piqa", "b mmlu:validation"));
}

TEST(SweepChildren, CountsWhatItMakes) {
  for (const char* more : {"", "calibrate_on: 'arc'", "transfer: true",
                           "transfer: true tasks { task: 'x' }", "calibrate_on: 'p/jobs/x'"}) {
    const v1::Job job = JobOf(std::string(kSides) + more);
    EXPECT_EQ(CountChildren(job.sweep()), static_cast<int64_t>(SweepChildren(job).size())) << more;
  }
  EXPECT_TRUE(SweepChildren(JobOf("workload { model: 'a' } calibrate_on: 'p/jobs/x'")).empty());
}

class SweepTableTest : public testing::Test {
 protected:
  // Curves of the k-th child: the scores' areas and largest shares.
  void Answer(int child, std::map<std::string, std::pair<double, double>> scores,
              bool complete = true) {
    v1::Curves& curves = answers_[ChildName(FakeJob::kName, child)];
    curves.set_complete(complete);
    for (const auto& [score, values] : scores) {
      v1::Curve& curve = *curves.add_curves();
      curve.set_id(score);
      curve.set_auc(values.first);
      curve.set_auc_common(values.first);
      curve.set_auc_10(kNaN);
      curve.set_largest_share(values.second);
      curve.add_points()->set_accuracy(.5);
      curve.mutable_points(0)->set_flips_to_wrong(7);
    }
  }

  absl::StatusOr<v1::SweepTable> Table(const std::string& spec, double margin = 0) {
    *store_.job().mutable_sweep() = Spec(spec);
    v1::GetSweepTableRequest request;
    request.set_job(FakeJob::kName);
    request.set_margin_points(margin);
    return GetSweepTable(
        store_,
        [&](const v1::GetCurvesRequest& ask) -> absl::StatusOr<v1::Curves> {
          margin_ = ask.margin_points();
          const auto found = answers_.find(ask.job());
          if (found == answers_.end()) return absl::NotFoundError(ask.job());
          return found->second;
        },
        request);
  }

  FakeJob store_;
  std::map<std::string, v1::Curves> answers_;
  double margin_ = 0;
};

TEST_F(SweepTableTest, LaysSidesBesideEachOther) {
  Answer(0, {{"output_norm_ln", {60, .2}}, {"random", {40, .05}}, {"shuffled(x)", {90, .9}}});
  Answer(1, {{"output_norm_ln", {60, .2}}, {"random", {40, .05}}});
  Answer(2, {{"output_norm_ln", {30, .1}}, {"random", {40, .05}}});
  const auto table = Table(kSides, 2);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(margin_, 2);
  EXPECT_EQ(table->margin_points(), 2);
  EXPECT_FALSE(table->complete()) << "the fourth side has nothing";
  ASSERT_EQ(table->sides_size(), 4);
  EXPECT_EQ(table->sides(1).label(), "a mmlu:validation");
  EXPECT_EQ(table->sides(1).job(), ChildName(FakeJob::kName, 1));
  EXPECT_FALSE(table->sides(3).has_curves());
  const v1::SweepSide& first = table->sides(0);
  EXPECT_EQ(first.table2().best_other(), "output_norm_ln") << "a control is no score";
  EXPECT_EQ(first.ranks().at("output_norm_ln").by().at("auc"), 1);
  EXPECT_EQ(first.ranks().at("random").by().at("auc_10"), 1.5) << "both missing";
  EXPECT_EQ(first.ranks().size(), 2u);
  EXPECT_EQ(first.curves().curves(0).points(0).accuracy(), .5);
  EXPECT_EQ(first.curves().curves(0).points(0).flips_to_wrong(), 0) << "left to GetCurves";
  // Sides 0 and 1 differ in the task, 0 and 2 in the model, 1 and 2 in both.
  std::map<std::string, double> spearman;
  for (const v1::ModelAgreement& agreement : table->agreements()) {
    if (agreement.metric() == "auc") {
      spearman[agreement.a() + "/" + agreement.b()] = agreement.spearman();
    }
  }
  EXPECT_EQ(spearman.size(), 2u);
  EXPECT_DOUBLE_EQ(spearman["a piqa/a mmlu:validation"], 1);
  EXPECT_DOUBLE_EQ(spearman["a piqa/b piqa"], -1);
}

TEST_F(SweepTableTest, SaysWhereThresholdsComeFrom) {
  for (int child = 0; child < 4; ++child) Answer(child, {{"output_norm_ln", {60, .2}}});
  const auto table = Table(
      "workload { model: 'a' task { task: 'piqa' } } scores: 'HONOR' transfer: true "
      "tasks { task: 'mmlu' }");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->complete());
  std::vector<std::string> labels;
  for (const v1::SweepSide& side : table->sides()) labels.push_back(side.label());
  EXPECT_THAT(labels, ElementsAre("piqa", "mmlu", "mmlu by piqa", "piqa by mmlu"));
  EXPECT_EQ(table->sides(2).calibrated_on(), "piqa");
  EXPECT_EQ(table->agreements_size(), 3) << "of the two in-sample sides, by three metrics";
}

TEST_F(SweepTableTest, LeavesTheCalibratingJobOut) {
  Answer(1, {{"output_norm_ln", {60, .2}}});
  const auto table =
      Table("workload { model: 'a' task { task: 'piqa' } } scores: 'HONOR' calibrate_on: 'arc'");
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->sides_size(), 1);
  EXPECT_EQ(table->sides(0).label(), "piqa by arc");
  EXPECT_EQ(table->sides(0).table2().best_score(), "output_norm_ln");
}

TEST_F(SweepTableTest, RefusesASweepOfOneModelAndTask) {
  const auto table = Table("workload { model: 'a' task { task: 'piqa' } } scores: 'HONOR'");
  EXPECT_EQ(ReasonOf(table.status()), "WRONG_KIND");
  EXPECT_THAT(std::string(table.status().message()), HasSubstr("several models or tasks"));
}

TEST_F(SweepTableTest, PassesOtherErrorsOn) {
  store_.job();
  *store_.job().mutable_sweep() = Spec(kSides);
  v1::GetSweepTableRequest request;
  request.set_job(FakeJob::kName);
  const auto broken = [](const v1::GetCurvesRequest&) -> absl::StatusOr<v1::Curves> {
    return absl::DataLossError("gone");
  };
  EXPECT_TRUE(absl::IsDataLoss(GetSweepTable(store_, broken, request).status()));
}

}  // namespace
}  // namespace headcount::results
