// A job's life as the flow moves it: stages, reuse of manifests, thresholds, curve points, ends.

#include "server/plan/job_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <thread>

#include "common/base/errors.h"
#include "common/format/frame.h"
#include "common/format/rpc_status.h"
#include "google/protobuf/text_format.h"
#include "server/plan/controls.h"
#include "server/plan/flow_runner.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/plan/fake_catalog.h"
#include "tests/server/plan/manifests.h"

namespace headcount::plan {
namespace {

using store::Stage;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTask[] = "workload { model: 'tiny' task { task: 'pairs' } }";

// Of a rule that changed 34 % of six heads: two.
results::RuleMasks MasksOver(const std::string& manifest_digest) {
  results::RuleMasks masks;
  masks.manifest_digest = manifest_digest;
  masks.layers = FakeCatalog::kLayers;
  masks.heads = FakeCatalog::kHeads;
  masks.share = .34;
  masks.changed = {1, 6, 4, 0, 4, 2};
  masks.masks = {"a", "b", "c", "d", "e", "f"};
  return masks;
}

class JobFlowTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = store::SqliteJobStore::Open(":memory:", clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    jobs_ = *std::move(opened);
    artifacts_ = store::ArtifactStore::InMemory();
    Restart();
  }

  void Restart() {
    const ThresholdsFn thresholds =
        [this](const std::string& job, std::span<const catalog::Score* const> scores,
               std::span<const double> fractions,
               const results::ScorePool& pool) -> absl::StatusOr<std::vector<std::vector<double>>> {
      if (planning_) planning_();
      asked_.push_back(job);
      pooled_ = pool;
      if (!thresholds_status_.ok()) return thresholds_status_;
      std::vector<std::vector<double>> values;
      for (size_t s = 0; s < scores.size(); ++s) {
        values.emplace_back();
        for (double fraction : fractions) {
          values.back().push_back(fraction + 10 * static_cast<double>(s));
        }
      }
      return values;
    };
    const MasksFn masks = [this](const std::string& job, int rule) {
      asked_.push_back(absl::StrCat(job, ":", rule));
      return masks_;
    };
    const MeansFn means = [this](const std::string& job) {
      v1::HeadMeans out;
      out.set_job(job);
      out.set_rest(std::string(mean_bytes_, 'r'));
      out.set_first(std::string(mean_bytes_, 'f'));
      return out;
    };
    flow_ = std::make_unique<JobFlow>(*jobs_, *artifacts_, catalog_,
                                      ResultSources{thresholds, masks, means},
                                      JobFlowOptions{.samples_per_unit = 4,
                                                     .rules_per_unit = 2,
                                                     .prompts_per_unit = 3,
                                                     .server_version = "1.2.3"});
    flow_->SetListener([this](const std::string&) { ++changes_; });
    flow_->SetPost([this](const std::string& job) { posted_.push_back(job); });
    flow_->SetNextUnits(
        [this](const v1::Job& job,
               const v1::StagePlan& plan) -> absl::StatusOr<std::vector<v1::UnitRange>> {
          plans_asked_.push_back(plan);
          if (looks_.empty()) return std::vector<v1::UnitRange>();
          const std::vector<v1::UnitRange> look = looks_.front();
          looks_.erase(looks_.begin());
          return look;
        });
  }

  std::string Create(const std::string& id, const std::string& spec) {
    store::NewJob job;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, &job.job)) << spec;
    job.job.set_name("projects/default/jobs/" + id);
    job.job.set_uid(id);
    EXPECT_TRUE(jobs_->CreateJob(job, 1000).ok());
    const absl::Status advanced = flow_->Advance(job.job.name());
    EXPECT_TRUE(advanced.ok()) << advanced;
    return job.job.name();
  }

  v1::Job Get(const std::string& job) { return jobs_->GetJob(job).value_or(v1::Job()); }

  std::vector<Stage> Stages(const std::string& job) {
    std::vector<Stage> stages;
    const auto records = jobs_->ListStages(job);
    EXPECT_TRUE(records.ok()) << records.status();
    for (const store::StageRecord& record : *records) stages.push_back(record.stage);
    return stages;
  }

  v1::StagePlan Plan(const std::string& job, Stage stage) {
    const auto record = jobs_->GetStage(job, stage);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? record->plan : v1::StagePlan();
  }

  // Stores a unit without telling the flow.
  void Store(const std::string& job, Stage stage, int64_t unit, const std::string& bytes,
             const v1::UnitCounts& counts) {
    const auto digest = artifacts_->Put(bytes);
    const auto lease = jobs_->LeaseTask(
        {.job = job, .stage = stage, .first_unit = unit, .unit_count = 1, .worker = "w"},
        std::chrono::seconds(30));
    ASSERT_TRUE(lease.ok()) << lease.status();
    const auto stored = jobs_->StoreChunk(lease->task, lease->attempt, unit, *digest,
                                          static_cast<int64_t>(bytes.size()), counts);
    ASSERT_TRUE(stored.ok()) << stored.status();
  }

  void Prepare(const std::string& job, const v1::Manifest& manifest) {
    Store(job, Stage::kPrepare, 0, format::Frame(format::FrameKind::kManifest, manifest), {});
    ASSERT_TRUE(flow_->UnitStored(job, Stage::kPrepare, 0).ok());
  }

  // Every rule of the unit gets as many documents as samples / 2, half of them right.
  void StoreUnit(const std::string& job, Stage stage, int64_t unit, bool tell = true) {
    const v1::StagePlan plan = Plan(job, stage);
    const int blocks = plan.sample_blocks_size();
    const int documents = plan.sample_blocks(static_cast<int>(unit) % blocks).documents();
    v1::UnitCounts counts;
    counts.set_rows(1);
    const int first_rule = static_cast<int>(unit) / blocks * plan.rules_per_unit();
    const int shift = Get(job).has_ablate() ? 1 : 0;
    for (int i = 0; i < std::max(1, plan.rules_per_unit()); ++i) {
      if (plan.rules_size() > 0 && first_rule + i >= plan.rules_size()) break;
      v1::RuleCounts* rule = counts.add_rules();
      rule->set_rule(plan.rules_size() == 0 ? -1 : first_rule + i - shift);
      rule->set_documents(documents);
      rule->set_correct(1);
      rule->set_share_sum(.25 * documents);
    }
    Store(job, stage, unit, "chunk", counts);
    if (tell) {
      ASSERT_TRUE(flow_->UnitStored(job, stage, unit).ok());
    }
  }

  void StoreAll(const std::string& job, Stage stage) {
    const int64_t units = jobs_->GetStage(job, stage)->units;
    for (int64_t unit = 0; unit < units; ++unit) StoreUnit(job, stage, unit);
  }

  std::vector<v1::CurvePointChanged> Points(const std::string& job) {
    std::vector<v1::CurvePointChanged> points;
    const auto events = jobs_->ReadEvents(job, 0, 10'000);
    EXPECT_TRUE(events.ok()) << events.status();
    for (const v1::JobEvent& event : *events) {
      if (event.has_curve_point()) points.push_back(event.curve_point());
    }
    return points;
  }

  FakeClock clock_;
  FakeCatalog catalog_;
  std::unique_ptr<store::JobStore> jobs_;
  std::unique_ptr<store::ArtifactStore> artifacts_;
  std::unique_ptr<JobFlow> flow_;
  std::vector<std::string> asked_;
  results::ScorePool pooled_;
  absl::StatusOr<results::RuleMasks> masks_ = absl::NotFoundError("no masks");
  size_t mean_bytes_ = 4 * FakeCatalog::kLayers * FakeCatalog::kHeads * FakeCatalog::kHeadDim;
  absl::Status thresholds_status_;
  std::vector<std::vector<v1::UnitRange>> looks_;  // what a growing stage is to run, look by look
  std::vector<v1::StagePlan> plans_asked_;
  std::vector<std::string> posted_;  // jobs that want a turn

  // As FlowRunner does, until nobody wants one.
  void RunPosted() {
    while (!posted_.empty()) {
      const std::string job = posted_.front();
      posted_.erase(posted_.begin());
      EXPECT_TRUE(flow_->Advance(job).ok());
    }
  }
  std::function<void()> planning_;  // called whenever thresholds are asked for
  std::atomic<int> changes_ = 0;
};

TEST_F(JobFlowTest, ASweepGoesFromPrepareToItsEnd) {
  const std::string job =
      Create("a", absl::StrCat("sweep { ", kTask,
                               " scores: 'HONOR' scores: 'random' scores: 'entropy'"
                               " fractions: 0 fractions: .1 fractions: .2 random_seed: 5"
                               " layers { exclude: 0 } intervention { scale: -1 } }"));
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare));
  Prepare(job, Pairs(6));
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore));
  StoreUnit(job, Stage::kScore, 0);
  StoreUnit(job, Stage::kScore, 1);
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore));
  StoreUnit(job, Stage::kScore, 2);
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore, Stage::kAblate));
  EXPECT_THAT(asked_, ElementsAre(job)) << "all thresholds in one pass";
  EXPECT_THAT(pooled_.layers, ElementsAre(0, 1));

  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 6) << "scores x fractions above 0";
  EXPECT_EQ(plan.rules(0).threshold().score(), "output_norm_ln");
  EXPECT_FLOAT_EQ(plan.rules(0).threshold().value(), .1f);
  EXPECT_FLOAT_EQ(plan.rules(1).threshold().value(), .2f);
  EXPECT_DOUBLE_EQ(plan.rules(3).random().p(), .2);
  EXPECT_EQ(plan.rules(3).random().seed(), 5u);
  EXPECT_EQ(plan.rules(3).label(), "random scale=-1");
  EXPECT_FLOAT_EQ(plan.rules(5).threshold().value(), 10.2f) << "entropy, after random";
  EXPECT_DOUBLE_EQ(plan.rules(5).nominal_fraction(), .2);
  for (const v1::ResolvedRule& rule : plan.rules()) {
    EXPECT_THAT(rule.layers(), ElementsAre(1));
    EXPECT_EQ(rule.intervention().scale(), -1);
  }

  StoreAll(job, Stage::kAblate);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(Get(job).state_reason(), "COMPLETE");
  EXPECT_EQ(Get(job).provenance().server_version(), "1.2.3");
  EXPECT_EQ(Get(job).provenance().model_digest(), "digest-of-tiny");
  EXPECT_EQ(Get(job).provenance().samples_per_unit(), 4);
  EXPECT_EQ(Get(job).provenance().first_token(), "The");
  EXPECT_EQ(Get(job).provenance().manifest_digest(),
            jobs_->GetStage(job, Stage::kScore)->manifest_digest);
}

v1::UnitRange Unit(int64_t first_sample, int rule) {
  v1::UnitRange unit;
  unit.set_first_sample(first_sample);
  unit.set_samples(2);
  unit.set_first_rule(rule);
  unit.set_rules(1);
  return unit;
}

TEST_F(JobFlowTest, AFrontierGrowsUntilNothingIsAskedFor) {
  looks_ = {{Unit(4, 0), Unit(0, 0)}, {Unit(0, 1)}, {}};
  const std::string job =
      Create("a", absl::StrCat("frontier { ", kTask, " scores: 'HONOR' fractions: .1 fractions: .2",
                               " seed: 3 }"));
  Prepare(job, Pairs(6));
  StoreAll(job, Stage::kScore);
  v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 2);
  EXPECT_EQ(plan.rules_per_unit(), 1);
  EXPECT_EQ(plan.sample_blocks_size(), 6) << "a document a block, where there are few";
  EXPECT_THAT(std::vector<int>(plan.block_order().begin(), plan.block_order().end()),
              testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
  ASSERT_EQ(plan.units_size(), 2);
  EXPECT_EQ(jobs_->GetStage(job, Stage::kAblate)->units, 2);

  const auto store = [&](int64_t unit, int rule) {
    v1::UnitCounts counts;
    counts.set_rows(2);
    counts.add_rules()->set_rule(rule);
    counts.mutable_rules(0)->set_documents(1);
    counts.mutable_rules(0)->set_correct(1);
    Store(job, Stage::kAblate, unit, "chunk", counts);
    ASSERT_TRUE(flow_->UnitStored(job, Stage::kAblate, unit).ok());
  };
  store(0, 0);
  store(1, 0);
  plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.units_size(), 3);
  EXPECT_EQ(plan.units(2).first_rule(), 1);
  EXPECT_EQ(jobs_->GetStage(job, Stage::kAblate)->rows, 6);
  EXPECT_NE(Get(job).state(), v1::Job::SUCCEEDED) << "not over yet";
  EXPECT_EQ(Points(job).back().rule(), 0);
  EXPECT_EQ(Points(job).back().documents(), 2);
  EXPECT_FALSE(Points(job).back().final());
  Restart();  // the next look is planned from what is stored
  store(2, 1);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(plans_asked_.size(), 3u);
  EXPECT_EQ(plans_asked_.back().units_size(), 3);
}

TEST_F(JobFlowTest, AKnockoutRunsEachHeadOfItsLayersAlone) {
  const std::string job =
      Create("a", absl::StrCat("knockout { ", kTask, " layers { include: 1 } }"));
  Prepare(job, Pairs(6));
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kAblate));
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 4) << "the baseline and three heads";
  EXPECT_TRUE(plan.rules(0).none());
  for (int head = 0; head < 3; ++head) {
    const v1::ResolvedRule& rule = plan.rules(head + 1);
    ASSERT_EQ(rule.fixed_heads().heads_size(), 1);
    EXPECT_EQ(rule.fixed_heads().heads(0).layer(), 1);
    EXPECT_EQ(rule.fixed_heads().heads(0).head(), head);
    EXPECT_EQ(rule.label(), "knockout");
  }
  // 4 samples x 2 rules a unit elsewhere: many rules on few samples here.
  EXPECT_EQ(plan.rules_per_unit(), 4);
  EXPECT_EQ(plan.sample_blocks(0).samples(), 2);
}

TEST_F(JobFlowTest, AProbeRecordsEachPromptUnderEveryRule) {
  const std::string job = Create(
      "a", absl::StrCat("probe { ", kTask, " rules { random { p: .5 } } rules { threshold { ",
                        "score: 'entropy' value: 2 } } }"));
  Prepare(job, Pairs(6));
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kAblate));
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 3);
  EXPECT_TRUE(plan.rules(0).none()) << "what the rules change is told against the baseline";
  EXPECT_EQ(plan.rules_per_unit(), 3) << "one chunk holds all of a prompt";
  ASSERT_EQ(plan.sample_blocks_size(), 6);
  EXPECT_EQ(plan.sample_blocks(0).samples(), 2);
  EXPECT_TRUE(plan.record().measurements());
  EXPECT_TRUE(plan.record().first_weights());
  EXPECT_EQ(plan.record().next_tokens(), 10) << "unless asked for otherwise";
  StoreAll(job, Stage::kAblate);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(Points(job).empty()) << "nothing to average";
}

TEST_F(JobFlowTest, AProbeOfTooManyPromptsFails) {
  const std::string job = Create("a", absl::StrCat("probe { ", kTask, " }"));
  Prepare(job, Pairs(33));
  EXPECT_EQ(Get(job).state(), v1::Job::FAILED);
  EXPECT_THAT(Get(job).error().message(), HasSubstr("has 66 samples, at most 64"));
}

TEST_F(JobFlowTest, ACompareJobIsMadeOfScoreJobs) {
  const std::string job = Create("a", absl::StrCat("owner: 'ann' priority: 3 compare { ", kTask,
                                                   " models: 'chatty' scores: 'entropy' }"));
  EXPECT_THAT(posted_, ElementsAre(job + "-1", job + "-2"));
  RunPosted();
  EXPECT_TRUE(Stages(job).empty());
  const v1::Job first = Get(job + "-1");
  EXPECT_EQ(first.parent(), job);
  EXPECT_EQ(first.owner(), "ann");
  EXPECT_EQ(first.priority(), 3);
  EXPECT_EQ(first.score().workload().model(), "tiny");
  EXPECT_EQ(Get(job + "-2").score().workload().model(), "chatty");
  EXPECT_EQ(Get(job + "-2").score().workload().task().task(), "pairs");
  EXPECT_NE(first.uid(), Get(job + "-2").uid());

  Prepare(job + "-1", Pairs(2));
  StoreAll(job + "-1", Stage::kScore);
  EXPECT_THAT(posted_, ElementsAre(job));
  RunPosted();
  EXPECT_EQ(Get(job).state(), v1::Job::RUNNING) << "one of two";
  Restart();
  Prepare(job + "-2", Pairs(2));
  StoreAll(job + "-2", Stage::kScore);
  RunPosted();
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
}

TEST_F(JobFlowTest, ASweepOfSeveralTasksRunsTheThresholdsOfEachOnTheOthers) {
  const std::string job =
      Create("a", absl::StrCat("sweep { ", kTask, " scores: 'HONOR' scores: 'random' fractions: .1",
                               " controls: CONTROL_RANDOM_IN_LAYER transfer: true",
                               " tasks { task: 'subjects' limit: 2 } }"));
  EXPECT_THAT(posted_, ElementsAre(job + "-1", job + "-2")) << "the others wait for thresholds";
  RunPosted();
  EXPECT_EQ(Get(job).state(), v1::Job::RUNNING);
  EXPECT_EQ(Get(job).state_reason(), "CHILDREN_CREATED");
  EXPECT_TRUE(Stages(job).empty());
  EXPECT_EQ(Get(job + "-2").sweep().workload().task().task(), "subjects");
  EXPECT_EQ(Get(job + "-2").sweep().workload().task().limit(), 2);
  EXPECT_EQ(Get(job + "-2").sweep().controls_size(), 1);
  EXPECT_FALSE(Get(job + "-2").sweep().transfer());

  const auto run = [this](const std::string& child) {
    // What a child before it has prepared is taken from there.
    if (Stages(child).back() == Stage::kPrepare) Prepare(child, Pairs(2));
    StoreAll(child, Stage::kScore);
    StoreAll(child, Stage::kAblate);
    EXPECT_EQ(Get(child).state(), v1::Job::SUCCEEDED);
    RunPosted();
  };
  run(job + "-1");
  EXPECT_EQ(Get(job + "-3").name(), job + "-3") << "its thresholds are there";
  EXPECT_EQ(Get(job + "-4").name(), "") << "they are not";
  const v1::SweepSpec transferred = Get(job + "-3").sweep();
  EXPECT_EQ(transferred.calibrate_on(), job + "-1");
  EXPECT_EQ(transferred.workload().task().task(), "subjects");
  EXPECT_THAT(transferred.scores(), ElementsAre("HONOR"));
  EXPECT_EQ(transferred.controls_size(), 0);
  asked_.clear();
  run(job + "-3");
  EXPECT_THAT(asked_, ElementsAre(job + "-1"));
  Restart();
  run(job + "-2");
  run(job + "-4");
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
}

TEST_F(JobFlowTest, ACalibratingTaskIsScoredFirstOnEveryModel) {
  const std::string job =
      Create("a", absl::StrCat("sweep { ", kTask, " scores: 'HONOR' fractions: .1",
                               " models: 'chatty' calibrate_on: 'subjects:train' }"));
  EXPECT_THAT(posted_, ElementsAre(job + "-1", job + "-3"));
  RunPosted();
  const v1::Job calibration = Get(job + "-3");
  ASSERT_TRUE(calibration.has_score());
  EXPECT_EQ(calibration.score().workload().model(), "chatty");
  EXPECT_EQ(calibration.score().workload().task().task(), "subjects");
  EXPECT_EQ(calibration.score().workload().task().split(), "train");
  Prepare(job + "-3", Pairs(2));
  StoreAll(job + "-3", Stage::kScore);
  RunPosted();
  EXPECT_EQ(Get(job + "-4").sweep().calibrate_on(), job + "-3");
  EXPECT_EQ(Get(job + "-2").name(), "") << "the other model's";
}

TEST_F(JobFlowTest, ASweepTakesTheThresholdsOfTheJobItNames) {
  const std::string job =
      Create("a", absl::StrCat("sweep { ", kTask, " scores: 'HONOR' fractions: .1 calibrate_on: ",
                               "'projects/default/jobs/scored' }"));
  thresholds_status_ = absl::NotFoundError("it was deleted");
  Prepare(job, Pairs(2));
  StoreAll(job, Stage::kScore);
  EXPECT_THAT(asked_, ElementsAre("projects/default/jobs/scored"));
  EXPECT_EQ(Get(job).state(), v1::Job::FAILED);
  EXPECT_THAT(Get(job).error().message(),
              HasSubstr("projects/default/jobs/scored: it was deleted"));
}

TEST_F(JobFlowTest, AChildThatFailsFailsItsParentAndCancelsTheOthers) {
  const std::string job =
      Create("a", absl::StrCat("compare { ", kTask, " models: 'chatty' scores: 'entropy' }"));
  RunPosted();
  const absl::Status why = WithReason(absl::InternalError("it broke"), "POISON_TASK");
  ASSERT_TRUE(jobs_
                  ->UpdateState({.job = job + "-2",
                                 .from = {v1::Job::QUEUED},
                                 .to = v1::Job::FAILED,
                                 .reason = "POISON_TASK",
                                 .error = format::ToRpcStatus(why)})
                  .ok());
  ASSERT_TRUE(flow_->Advance(job + "-2").ok());
  RunPosted();
  EXPECT_EQ(Get(job).state(), v1::Job::FAILED);
  EXPECT_EQ(Get(job).state_reason(), "CHILD_FAILED");
  EXPECT_THAT(Get(job).error().message(), HasSubstr("it broke"));
  EXPECT_EQ(Get(job + "-1").state(), v1::Job::CANCELLED);
}

TEST_F(JobFlowTest, CancellingAParentCancelsItsChildren) {
  const std::string job =
      Create("a", absl::StrCat("compare { ", kTask, " models: 'chatty' scores: 'entropy' }"));
  RunPosted();
  ASSERT_TRUE(jobs_
                  ->UpdateState({.job = job,
                                 .from = {v1::Job::RUNNING},
                                 .to = v1::Job::CANCELLING,
                                 .reason = "CANCELLED_BY_USER"})
                  .ok());
  ASSERT_TRUE(flow_->Advance(job).ok());
  RunPosted();
  for (const char* suffix : {"", "-1", "-2"}) {
    EXPECT_EQ(Get(job + suffix).state(), v1::Job::CANCELLED) << suffix;
  }
}

TEST_F(JobFlowTest, ASweepOfPromptsToContinueHasItsOwnBaselineAndSmallUnits) {
  const std::string job = Create("g", R"(sweep { workload { model: 'tiny' task { task: 'sums' } }
    scores: 'entropy' scores: 'random' fractions: .5 mask_update: MASK_UPDATE_PROMPT_ONCE })");
  v1::Manifest manifest = MakeManifest(std::vector<std::vector<int>>(7, {1}));
  manifest.mutable_generation()->set_max_new_tokens(5);
  for (v1::ManifestSample& sample : *manifest.mutable_samples()) sample.clear_choices();
  Prepare(job, manifest);
  EXPECT_EQ(Plan(job, Stage::kScore).sample_blocks_size(), 2);  // four samples each
  StoreUnit(job, Stage::kScore, 0);
  StoreUnit(job, Stage::kScore, 1);
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  EXPECT_EQ(plan.sample_blocks_size(), 3);  // prompts_per_unit 3
  ASSERT_EQ(plan.rules_size(), 3);
  EXPECT_TRUE(plan.rules(0).none());
  EXPECT_EQ(plan.rules(0).label(), "baseline");
  EXPECT_EQ(plan.rules(1).threshold().score(), "entropy");
  EXPECT_EQ(plan.rules(1).mask_update(), v1::MASK_UPDATE_PROMPT_ONCE);
  EXPECT_EQ(plan.rules(2).mask_update(), v1::MASK_UPDATE_PROMPT_ONCE);
}

TEST_F(JobFlowTest, DefaultFractionsAreThePapersWithoutZero) {
  const std::string job =
      Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' scores: 'random' }"));
  Prepare(job, Pairs(2));
  StoreAll(job, Stage::kScore);
  std::vector<double> fractions;
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  for (const auto& rule : plan.rules()) fractions.push_back(rule.nominal_fraction());
  EXPECT_THAT(fractions, ElementsAre(.05, .1, .15, .2, .25, .3, .05, .1, .15, .2, .25, .3));
}

TEST_F(JobFlowTest, AScoreJobEndsAfterItsScores) {
  const std::string job = Create("a", absl::StrCat("score { ", kTask, " }"));
  Prepare(job, Pairs(6));
  StoreAll(job, Stage::kScore);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore));
}

TEST_F(JobFlowTest, AnAblateJobRunsItsOwnBaselineFirst) {
  const std::string scored = "projects/default/jobs/scored";
  const std::string job = Create(
      "a", absl::StrCat("ablate { ", kTask, " rules { threshold { score: 'entropy' value: 2 } }",
                        " rules { threshold { score: 'HONOR' fraction: .1 score_job: '", scored,
                        "' } } rules { threshold { score: 'HONOR' fraction: 0 score_job: '", scored,
                        "' } } rules { threshold { score: 'entropy' top_k: 2 } }",
                        " rules { fixed_heads { heads { layer: 1 head: 2 } } }",
                        " rules { random { p: .5 seed: 9 } layers { include: 1 include: 0 } }",
                        " rules { random { p: .5 } intervention { scale: .5 } }",
                        " rules { random { p: .5 } intervention { first_value: true } }",
                        " rules { random { p: .5 } intervention { scale: 0 } } }"));
  Prepare(job, Pairs(2));
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kAblate));
  EXPECT_THAT(asked_, ElementsAre(scored));
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 10);
  EXPECT_TRUE(plan.rules(0).none());
  EXPECT_EQ(plan.rules(0).label(), "baseline");
  EXPECT_FLOAT_EQ(plan.rules(1).threshold().value(), 2);
  EXPECT_TRUE(std::isnan(plan.rules(1).nominal_fraction()));
  EXPECT_FLOAT_EQ(plan.rules(2).threshold().value(), .1f);
  EXPECT_EQ(plan.rules(2).label(), "output_norm_ln");
  EXPECT_TRUE(plan.rules(3).none()) << "fraction 0 zeroes nothing";
  EXPECT_EQ(plan.rules(3).label(), "output_norm_ln");
  EXPECT_EQ(plan.rules(4).top_k().k(), 2);
  EXPECT_EQ(plan.rules(5).fixed_heads().heads(0).head(), 2);
  EXPECT_EQ(plan.rules(5).label(), "fixed");
  EXPECT_EQ(plan.rules(6).random().seed(), 9u);
  EXPECT_TRUE(plan.rules(6).layers().empty()) << "all layers are no restriction";
  EXPECT_EQ(plan.rules(7).intervention().scale(), .5);
  EXPECT_EQ(plan.rules(7).label(), "random scale=0.5") << "a curve of its own";
  EXPECT_TRUE(plan.rules(8).intervention().first_value());
  EXPECT_EQ(plan.rules(8).label(), "random first_value");
  EXPECT_FALSE(plan.rules(9).has_intervention()) << "one form for one meaning";
  EXPECT_EQ(plan.rules(9).label(), "random");

  StoreAll(job, Stage::kAblate);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  std::vector<int> shown;
  for (const auto& point : Points(job)) {
    if (point.final()) shown.push_back(point.rule());
  }
  EXPECT_THAT(shown, testing::UnorderedElementsAre(-1, 0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(JobFlowTest, RulesAreResolvedWithTheirUnitsNamesAndParts) {
  const std::string scored = "projects/default/jobs/scored";
  const std::string job = Create(
      "a",
      absl::StrCat("ablate { ", kTask,
                   " rules { name: 'weak' threshold { score: 'HONOR' fraction: ", ".1 score_job: '",
                   scored, "' } unit: UNIT_KV_GROUP group_score: ", "GROUP_SCORE_MAX }",
                   " rules { expression: 'weak and not sink' intervention { scale: 2 } }",
                   " rules { name: 'sink' threshold { score: 'Dormant' layer_values { values: .5 ",
                   "values: .75 } } }",
                   " rules { random_in_layer { rule: 'weak' seed: 3 } unit: UNIT_KV_GROUP }",
                   " rules { fixed_heads { heads { layer: 1 } } unit: UNIT_KV_GROUP } }"));
  Prepare(job, Pairs(2));
  EXPECT_EQ(pooled_.kv_heads, FakeCatalog::kKvHeads);
  EXPECT_EQ(pooled_.group_score, v1::GROUP_SCORE_MAX);
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 6);
  EXPECT_EQ(plan.rules(1).label(), "weak");
  EXPECT_EQ(plan.rules(1).unit(), v1::UNIT_KV_GROUP);
  EXPECT_EQ(plan.rules(1).group_score(), v1::GROUP_SCORE_MAX);
  EXPECT_FLOAT_EQ(plan.rules(1).threshold().value(), .1f);
  EXPECT_EQ(plan.rules(2).label(), "weak and not sink scale=2");
  ASSERT_EQ(plan.rules(2).combined().parts_size(), 2);
  EXPECT_EQ(plan.rules(2).combined().parts(0).unit(), v1::UNIT_KV_GROUP);
  EXPECT_THAT(plan.rules(2).combined().parts(1).threshold().layer_values(), ElementsAre(.5, .75));
  EXPECT_EQ(plan.rules(4).label(), "random_in_layer(weak)");
  EXPECT_EQ(plan.rules(4).combined().steps(1).unit(), v1::UNIT_KV_GROUP);
  ASSERT_EQ(plan.rules(5).fixed_heads().heads_size(), 3) << "the group's query heads";
  EXPECT_EQ(plan.rules(5).fixed_heads().heads(2).head(), 2);
}

TEST_F(JobFlowTest, ControlsTakeTheMasksOfAnotherJob) {
  const std::string first = Create("a", absl::StrCat("score { ", kTask, " }"));
  Prepare(first, Pairs(3));  // three documents of two samples
  results::RuleMasks masks = MasksOver(jobs_->GetStage(first, Stage::kScore)->manifest_digest);
  masks.label = "output_norm_ln";
  masks.nominal_fraction = .3;
  masks_ = masks;
  const std::string source = "projects/default/jobs/ablated";
  const std::string job =
      Create("b", absl::StrCat("ablate { ", kTask, " rules { static_heads { job: '", source,
                               "' rule: 4 } } rules { shuffled { job: '", source,
                               "' seed: 1 } intervention { first_value: true } } }"));
  EXPECT_THAT(asked_, ElementsAre(source + ":4", source + ":0"));
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 3);
  EXPECT_EQ(plan.rules(1).label(), "static_heads(output_norm_ln)");
  EXPECT_EQ(plan.rules(1).nominal_fraction(), .3);
  ASSERT_EQ(plan.rules(1).fixed_heads().heads_size(), 2) << "of equals the lower one";
  EXPECT_EQ(plan.rules(1).fixed_heads().heads(0).head(), 1);
  EXPECT_EQ(plan.rules(1).fixed_heads().heads(1).head(), 2);
  EXPECT_EQ(plan.rules(2).label(), "shuffled(output_norm_ln) first_value");
  const std::string shuffled = plan.rules(2).sample_masks().masks();
  ASSERT_EQ(shuffled.size(), 6u);
  const std::string own = "abcdef";
  for (size_t i = 0; i < 6; i += 2) {
    EXPECT_NE(shuffled[i], own[i]) << "no document gets its own";
    EXPECT_EQ(shuffled[i + 1], shuffled[i] + 1) << "samples in their order";
  }
  std::string sorted = shuffled;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, own) << "each once";
  const v1::ResolvedRule cut = RuleForSamples(plan.rules(2), 2, 3, 6);
  EXPECT_EQ(cut.sample_masks().first_sample(), 2);
  EXPECT_EQ(cut.sample_masks().masks(), shuffled.substr(2, 3)) << "as a task carries it";

  masks_->share = 0;
  const std::string nothing = Create(
      "c", absl::StrCat("ablate { ", kTask, " rules { static_heads { job: '", source, "' } } }"));
  EXPECT_TRUE(Plan(nothing, Stage::kAblate).rules(1).none());
  masks_->manifest_digest = "of others";
  const std::string others = Create(
      "d", absl::StrCat("ablate { ", kTask, " rules { shuffled { job: '", source, "' } } }"));
  EXPECT_EQ(Get(others).state(), v1::Job::FAILED);
  EXPECT_EQ(Get(others).state_reason(), "OTHER_SAMPLES");
  masks_->heads = 4;
  const std::string changed = Create(
      "e", absl::StrCat("ablate { ", kTask, " rules { static_heads { job: '", source, "' } } }"));
  EXPECT_EQ(Get(changed).state_reason(), "MODEL_CHANGED");
}

TEST_F(JobFlowTest, ASweepGrowsByTheControlsThatNeedItsMasks) {
  const std::string job =
      Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' scores: 'random'",
                               " fractions: .1 fractions: .2 fractions: .3 control_seed: 7",
                               " controls: CONTROL_STATIC_HEADS controls: CONTROL_RANDOM_IN_LAYER",
                               " controls: CONTROL_SHUFFLED intervention { scale: 2 } }"));
  Prepare(job, Pairs(3));
  StoreUnit(job, Stage::kScore, 0);
  StoreUnit(job, Stage::kScore, 1);
  v1::StagePlan plan = Plan(job, Stage::kAblate);
  // Three of entropy, three of random, and three a control of what entropy decides.
  ASSERT_EQ(plan.rules_size(), 15);
  const v1::ResolvedRule& drawn = plan.rules(7);
  EXPECT_EQ(drawn.label(), "random_in_layer(entropy scale=2)");
  EXPECT_EQ(drawn.nominal_fraction(), .2);
  EXPECT_EQ(drawn.intervention().scale(), 2);
  ASSERT_EQ(drawn.combined().parts_size(), 1);
  EXPECT_FLOAT_EQ(drawn.combined().parts(0).threshold().value(), plan.rules(1).threshold().value());
  EXPECT_FALSE(drawn.combined().parts(0).has_intervention());
  EXPECT_EQ(drawn.combined().steps(1).op(), v1::CombineStep::RANDOM_IN_LAYER);
  EXPECT_EQ(drawn.combined().steps(1).seed(), 7u);
  EXPECT_EQ(plan.rules(9).select_case(), v1::ResolvedRule::SELECT_NOT_SET);
  EXPECT_EQ(plan.rules(9).label(), "static_heads(entropy scale=2)");
  EXPECT_EQ(plan.rules(14).label(), "shuffled(entropy scale=2)");
  // Two rules a unit over two blocks of samples, up to rule 8, which is in a unit alone.
  ASSERT_EQ(plan.units_size(), 10);
  EXPECT_EQ(plan.units(9).first_rule(), 8);
  EXPECT_EQ(plan.units(9).rules(), 1);

  const auto store = [&](int64_t unit) {
    const v1::UnitRange range = Plan(job, Stage::kAblate).units(static_cast<int>(unit));
    v1::UnitCounts counts;
    counts.set_rows(range.samples() * range.rules());
    for (int i = 0; i < range.rules(); ++i) {
      v1::RuleCounts* rule = counts.add_rules();
      rule->set_rule(range.first_rule() + i);
      rule->set_documents(range.samples() / 2);
    }
    Store(job, Stage::kAblate, unit, "chunk", counts);
    ASSERT_TRUE(flow_->UnitStored(job, Stage::kAblate, unit).ok());
  };
  masks_ = MasksOver(jobs_->GetStage(job, Stage::kAblate)->manifest_digest);
  asked_.clear();
  for (int64_t unit = 0; unit < 9; ++unit) store(unit);
  EXPECT_TRUE(asked_.empty()) << "before all of its own rules are stored";
  store(9);
  EXPECT_THAT(asked_,
              ElementsAre(job + ":0", job + ":1", job + ":2", job + ":0", job + ":1", job + ":2"));
  plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.units_size(), 16);
  EXPECT_EQ(plan.units(10).first_rule(), 9);
  EXPECT_EQ(plan.units(10).rules(), 2);
  EXPECT_EQ(plan.units(15).first_rule(), 13);
  EXPECT_EQ(plan.rules(10).fixed_heads().heads_size(), 2);
  EXPECT_EQ(plan.rules(10).intervention().scale(), 2);
  EXPECT_EQ(plan.rules(12).sample_masks().masks().size(), 6u);
  EXPECT_NE(Get(job).state(), v1::Job::SUCCEEDED);
  Restart();
  for (int64_t unit = 10; unit < 16; ++unit) store(unit);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(jobs_->GetStage(job, Stage::kAblate)->units, 16);
  int final = 0;
  for (const auto& point : Points(job)) final += point.final() && point.rule() >= 0;
  EXPECT_EQ(final, 15);
}

TEST_F(JobFlowTest, MeansGoWithThePlanOnce) {
  const std::string scored = "projects/default/jobs/scored";
  const std::string rule =
      absl::StrCat(" rules { random { p: .5 } intervention { mean: '", scored, "' } }");
  const std::string job =
      Create("a", absl::StrCat("ablate { ", kTask,
                               " rules { random { p: .5 } intervention { mean: 'o' } }", rule, rule,
                               " }"));
  Prepare(job, Pairs(2));
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.means_size(), 2);
  EXPECT_EQ(plan.means(1).job(), scored);
  EXPECT_EQ(plan.rules(1).means(), 0);
  EXPECT_EQ(plan.rules(2).means(), 1);
  EXPECT_EQ(plan.rules(3).means(), 1);
  EXPECT_EQ(plan.rules(3).label(), "random mean");
  const std::string sweep = Create(
      "b", absl::StrCat("sweep { ", kTask, " scores: 'entropy' intervention { mean: '' } }"));
  StoreAll(sweep, Stage::kScore);
  ASSERT_EQ(Plan(sweep, Stage::kAblate).means_size(), 1);
  EXPECT_EQ(Plan(sweep, Stage::kAblate).means(0).job(), sweep);
  EXPECT_EQ(Plan(sweep, Stage::kAblate).rules(0).intervention().mean(), sweep);
  mean_bytes_ = 4;
  EXPECT_EQ(Get(Create("c", absl::StrCat("ablate { ", kTask, rule, " }"))).state_reason(),
            "MODEL_CHANGED");
}

TEST_F(JobFlowTest, UserScoresGoWithTheirDefinition) {
  const std::string mine =
      "user_scores { name: 'mine' expression: 'output / value' inactive: ABOVE }";
  const std::string job = Create(
      "a",
      absl::StrCat("ablate { ", kTask, " ", mine, " rules { threshold { score: 'mine' value: 2 } }",
                   " rules { threshold { score: 'mine' top_k: 1 } }",
                   " rules { threshold { score: 'mine' fraction: .1 score_job: 'j' } } }"));
  Prepare(job, Pairs(2));
  const v1::StagePlan plan = Plan(job, Stage::kAblate);
  ASSERT_EQ(plan.rules_size(), 4);
  for (int rule = 1; rule < 4; ++rule) EXPECT_EQ(plan.rules(rule).label(), "mine");
  EXPECT_EQ(plan.rules(1).threshold().user_score().expression(), "output / value");
  EXPECT_EQ(plan.rules(2).top_k().user_score().inactive(), v1::UserScore::ABOVE);
  EXPECT_EQ(plan.rules(3).threshold().user_score().name(), "mine");
  EXPECT_FLOAT_EQ(plan.rules(3).threshold().value(), .1f);
  const std::string sweep =
      Create("b", absl::StrCat("sweep { ", kTask, " scores: 'mine' fractions: .2 ", mine, " }"));
  StoreAll(sweep, Stage::kScore);
  EXPECT_EQ(Plan(sweep, Stage::kAblate).rules(0).threshold().user_score().name(), "mine");
}

TEST_F(JobFlowTest, ASecondJobOnTheSameFilesSkipsPrepare) {
  const std::string first = Create("a", absl::StrCat("score { ", kTask, " }"));
  Prepare(first, Pairs(6));
  const std::string second = Create("b", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  EXPECT_THAT(Stages(second), ElementsAre(Stage::kScore));
  EXPECT_EQ(jobs_->GetStage(second, Stage::kScore)->manifest_digest,
            jobs_->GetStage(first, Stage::kScore)->manifest_digest);
  EXPECT_EQ(Get(second).provenance().requests_digest(), "requests");

  catalog_.data_digest = "changed";
  EXPECT_THAT(Stages(Create("c", absl::StrCat("score { ", kTask, " }"))),
              ElementsAre(Stage::kPrepare));
}

TEST_F(JobFlowTest, AManifestWhoseFilesChangedMeanwhileIsNotReused) {
  const std::string first = Create("a", absl::StrCat("score { ", kTask, " }"));
  catalog_.data_digest = "changed";
  Prepare(first, Pairs(6));
  EXPECT_THAT(Stages(first), ElementsAre(Stage::kPrepare, Stage::kScore));
  EXPECT_THAT(Stages(Create("b", absl::StrCat("score { ", kTask, " }"))),
              ElementsAre(Stage::kPrepare));
}

TEST_F(JobFlowTest, AManifestThatIsLostIsPreparedAgain) {
  const std::string first = Create("a", absl::StrCat("score { ", kTask, " }"));
  Prepare(first, Pairs(6));
  artifacts_ = store::ArtifactStore::InMemory();
  Restart();
  EXPECT_THAT(Stages(Create("b", absl::StrCat("score { ", kTask, " }"))),
              ElementsAre(Stage::kPrepare));
}

TEST_F(JobFlowTest, AdvancingAgainChangesNothing) {
  const std::string job = Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  Prepare(job, Pairs(6));
  StoreUnit(job, Stage::kScore, 0);
  const int64_t before = *jobs_->LastSequence(job);
  const int changes = changes_;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(flow_->Advance(job).ok());
    ASSERT_TRUE(flow_->UnitStored(job, Stage::kScore, 0).ok());
    Restart();
    ASSERT_TRUE(flow_->ResumeAll().ok());
  }
  EXPECT_EQ(*jobs_->LastSequence(job), before);
  EXPECT_EQ(changes_, changes);
}

TEST_F(JobFlowTest, WhatACrashLeftUndoneIsDoneAtStart) {
  const std::string job = Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  Prepare(job, Pairs(6));
  for (int unit = 0; unit < 3; ++unit) StoreUnit(job, Stage::kScore, unit, /*tell=*/false);
  EXPECT_TRUE(Points(job).empty());
  Restart();
  ASSERT_TRUE(flow_->ResumeAll().ok());
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore, Stage::kAblate));
  StoreUnit(job, Stage::kAblate, 0, /*tell=*/false);
  Restart();
  ASSERT_TRUE(flow_->ResumeAll().ok());
  EXPECT_FALSE(Points(job).empty());
}

TEST_F(JobFlowTest, CurvePointsComeEveryEighthAndAtTheEnd) {
  const std::string job = Create("a", absl::StrCat("score { ", kTask, " }"));
  Prepare(job, Pairs(40));  // 20 blocks of two documents
  StoreAll(job, Stage::kScore);
  const auto points = Points(job);
  ASSERT_EQ(points.size(), 8u);
  std::vector<int64_t> documents;
  for (const auto& point : points) {
    documents.push_back(point.documents());
    EXPECT_EQ(point.rule(), -1);
    EXPECT_EQ(point.curve(), "baseline");
    EXPECT_EQ(point.total_documents(), 40);
    EXPECT_DOUBLE_EQ(point.accuracy(), .5);
    EXPECT_DOUBLE_EQ(point.share_zeroed(), .25);
    EXPECT_EQ(point.final(), point.documents() == 40);
  }
  EXPECT_THAT(documents, ElementsAre(6, 10, 16, 20, 26, 30, 36, 40));
}

TEST_F(JobFlowTest, PromptsWithoutAnswersHaveNoCurve) {
  const std::string job =
      Create("a", "score { workload { model: 'tiny' requests { requests { context: 'x' } } } }");
  Prepare(job, Pairs(2));
  StoreAll(job, Stage::kScore);
  EXPECT_EQ(Get(job).state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(Points(job).empty());
}

TEST_F(JobFlowTest, WhatCannotBePlannedFailsTheJob) {
  const std::string job = Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  Prepare(job, Pairs(2));
  thresholds_status_ =
      WithReason(absl::FailedPreconditionError("no finite score is left"), "NON_FINITE");
  StoreAll(job, Stage::kScore);
  EXPECT_EQ(Get(job).state(), v1::Job::FAILED);
  EXPECT_EQ(Get(job).state_reason(), "NON_FINITE");
  EXPECT_THAT(Get(job).error().message(), HasSubstr("no finite score is left"));
  EXPECT_EQ(ReasonOf(format::FromRpcStatus(Get(job).error())), "NON_FINITE");
}

TEST_F(JobFlowTest, ADocumentTooLargeForAUnitFailsTheJob) {
  const std::string job = Create("a", absl::StrCat("score { ", kTask, " }"));
  Prepare(job, MakeManifest({{5}}));
  EXPECT_EQ(Get(job).state(), v1::Job::FAILED);
  EXPECT_THAT(Get(job).error().message(), HasSubstr("pairs/0 has 5 samples"));
}

TEST_F(JobFlowTest, AStoreThatIsAwayDoesNotFailTheJob) {
  const std::string job = Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  Prepare(job, Pairs(2));
  thresholds_status_ = absl::UnavailableError("busy");
  const int64_t last = jobs_->GetStage(job, Stage::kScore)->units - 1;
  for (int64_t unit = 0; unit < last; ++unit) StoreUnit(job, Stage::kScore, unit);
  StoreUnit(job, Stage::kScore, last, /*tell=*/false);
  EXPECT_TRUE(absl::IsUnavailable(flow_->Advance(job)));
  EXPECT_FALSE(Get(job).has_error());
  thresholds_status_ = absl::OkStatus();
  ASSERT_TRUE(flow_->Advance(job).ok());
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore, Stage::kAblate));
}

TEST_F(JobFlowTest, ACancelledJobEndsWhenNobodyWorksOnIt) {
  const std::string job = Create("a", absl::StrCat("score { ", kTask, " }"));
  const auto lease = jobs_->LeaseTask(
      {.job = job, .stage = Stage::kPrepare, .first_unit = 0, .unit_count = 1, .worker = "w"},
      std::chrono::seconds(30));
  ASSERT_TRUE(jobs_
                  ->UpdateState({.job = job,
                                 .from = {v1::Job::STARTING},
                                 .to = v1::Job::CANCELLING,
                                 .reason = "CANCEL_REQUESTED"})
                  .ok());
  ASSERT_TRUE(flow_->Advance(job).ok());
  EXPECT_EQ(Get(job).state(), v1::Job::CANCELLING);
  ASSERT_TRUE(
      jobs_->EndLease(lease->task, lease->attempt, store::LeaseEnd::kReleased, "", "").ok());
  ASSERT_TRUE(flow_->Advance(job).ok());
  EXPECT_EQ(Get(job).state(), v1::Job::CANCELLED);
}

TEST_F(JobFlowTest, APausedJobIsPlannedAfterItGoesOn) {
  const std::string job = Create("a", absl::StrCat("score { ", kTask, " }"));
  Store(job, Stage::kPrepare, 0, format::Frame(format::FrameKind::kManifest, Pairs(2)), {});
  ASSERT_TRUE(
      jobs_->UpdateState({.job = job, .from = {v1::Job::STARTING}, .to = v1::Job::PAUSED}).ok());
  ASSERT_TRUE(flow_->UnitStored(job, Stage::kPrepare, 0).ok());
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare));
  ASSERT_TRUE(
      jobs_->UpdateState({.job = job, .from = {v1::Job::PAUSED}, .to = v1::Job::QUEUED}).ok());
  ASSERT_TRUE(flow_->Advance(job).ok());
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore));
}

TEST_F(JobFlowTest, JobsThatAreGoneAreNoError) {
  EXPECT_TRUE(flow_->Advance("projects/default/jobs/none").ok());
  EXPECT_TRUE(flow_->UnitStored("projects/default/jobs/none", Stage::kScore, 0).ok());
}

TEST_F(JobFlowTest, ThreadsMayAdvanceAtOnce) {
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.push_back(
        Create("t" + std::to_string(i), absl::StrCat("sweep { ", kTask, " scores: 'entropy' }")));
    Store(names.back(), Stage::kPrepare, 0,
          format::Frame(format::FrameKind::kManifest, Pairs(6 + i)), {});
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &names] {
      for (int round = 0; round < 3; ++round) {
        for (const std::string& name : names) EXPECT_TRUE(flow_->Advance(name).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& name : names) {
    EXPECT_THAT(Stages(name), ElementsAre(Stage::kPrepare, Stage::kScore));
  }
}

TEST_F(JobFlowTest, TheRunnerWorksOffWhatIsPosted) {
  const std::string job = Create("a", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  Store(job, Stage::kPrepare, 0, format::Frame(format::FrameKind::kManifest, Pairs(2)), {});
  FlowRunner runner(*flow_);
  runner.PostUnit(job, Stage::kPrepare, 0);
  runner.WaitIdle();
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore));

  thresholds_status_ = absl::UnavailableError("busy");
  StoreUnit(job, Stage::kScore, 0, /*tell=*/false);
  runner.Post(job);
  runner.WaitIdle();
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore));
  thresholds_status_ = absl::OkStatus();
  runner.Tick();
  runner.WaitIdle();
  EXPECT_THAT(Stages(job), ElementsAre(Stage::kPrepare, Stage::kScore, Stage::kAblate));
}

TEST_F(JobFlowTest, WhileOneJobIsPlannedAnotherGoesOn) {
  const std::string slow = Create("slow", absl::StrCat("sweep { ", kTask, " scores: 'entropy' }"));
  Prepare(slow, Pairs(2));
  StoreUnit(slow, Stage::kScore, 0, /*tell=*/false);
  const std::string quick =
      Create("quick", "score { workload { model: 'tiny' task { task: 'pairs' limit: 1 } } }");
  Store(quick, Stage::kPrepare, 0, format::Frame(format::FrameKind::kManifest, Pairs(2)), {});

  std::promise<void> release;
  planning_ = [gate = release.get_future().share()] { gate.wait(); };
  FlowRunner runner(*flow_, 2);
  std::promise<void> advanced;
  flow_->SetListener([&](const std::string& job) {
    if (job == quick) advanced.set_value();
  });
  runner.PostUnit(slow, Stage::kScore, 0);
  runner.Post(slow);  // waits for the one before, and takes no second thread
  runner.PostUnit(quick, Stage::kPrepare, 0);
  advanced.get_future().wait();
  EXPECT_THAT(Stages(quick), ElementsAre(Stage::kPrepare, Stage::kScore));
  EXPECT_THAT(Stages(slow), ElementsAre(Stage::kPrepare, Stage::kScore));
  release.set_value();
  runner.WaitIdle();
  EXPECT_THAT(Stages(slow), ElementsAre(Stage::kPrepare, Stage::kScore, Stage::kAblate));
  runner.Stop();
  runner.Post(slow);  // dropped
}

}  // namespace
}  // namespace headcount::plan
