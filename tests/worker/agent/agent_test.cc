// The agent against a scripted server: what it reports, and what it does when its lease is lost,
// the server goes away, a task is cancelled or the process drains. Nothing sleeps; an engine that
// waits for permits decides how far a task gets.

#include "worker/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/format/frame.h"
#include "common/rpc/channel.h"
#include "tests/fault/fake_engine.h"
#include "tests/worker/agent/scripted_server.h"
#include "worker/eval/manifest.h"

namespace headcount::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Phase = v1::CurrentTask;

constexpr char kConfig[] = R"({"model_type": "llama", "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 64,
  "vocab_size": 100, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000,
  "torch_dtype": "float32"})";

catalog::ModelConfig TinyConfig() {
  auto config = catalog::ParseModelConfig(kConfig, "tiny");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

// 8 documents of two choices in one group: 8 samples.
v1::Manifest TinyManifest() {
  std::vector<eval::Document> documents;
  for (int i = 0; i < 8; ++i) {
    eval::Document document;
    document.task = "quiz";
    document.row = i;
    document.context = "shared " + std::to_string(i);
    document.continuations = {"A", "B"};
    document.choice_lengths = {1, 1};
    document.gold = 0;
    documents.push_back(document);
  }
  eval::ManifestOptions options;
  options.group_by_task = true;
  options.max_tokens = 64;
  auto manifest = eval::BuildManifest(
      documents,
      [](std::string_view text) -> absl::StatusOr<std::vector<int32_t>> {
        std::vector<int32_t> ids;
        for (const char c : text) ids.push_back(c % 100);
        return ids;
      },
      options);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  return *manifest;
}

v1::Task MakeTask(const std::string& stage, int units, int attempt = 1,
                  const std::string& name = "projects/default/jobs/j/tasks/1") {
  v1::Task task;
  task.set_name(name);
  task.set_job("projects/default/jobs/j");
  task.set_stage(stage);
  task.set_unit_count(units);
  task.set_attempt(attempt);
  task.set_model("tiny");
  task.set_manifest_digest("digest");
  for (int u = 0; u < units && stage != "prepare"; ++u) {
    v1::UnitRange* range = task.add_units();
    range->set_unit(u);
    range->set_first_sample(2 * u);
    range->set_samples(2);
    range->set_rules(stage == "ablate" ? 2 : 0);
  }
  if (stage == "ablate") {
    v1::ResolvedRule* threshold = task.add_rules();
    threshold->mutable_threshold()->set_score("output_norm_ln");
    threshold->mutable_threshold()->set_value(0.8f);
    v1::ResolvedRule* random = task.add_rules();
    random->set_index(1);
    random->mutable_random()->set_p(0.5);
    random->mutable_random()->set_seed(3);
  }
  return task;
}

// How many rows the engine may still run; shared by test and engine.
class Permits {
 public:
  void Allow(int rows) {
    {
      std::lock_guard lock(mutex_);
      left_ += rows;
    }
    changed_.notify_all();
  }
  void AllowAll() { Allow(1'000'000); }
  // Waits for one, or for the task to be stopped: the end of a batch.
  void Take(const engine::CancelFlag& cancel) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    while (left_ == 0 && !cancel.load()) changed_.wait_for(lock, std::chrono::milliseconds(2));
    --waiting_;
    if (left_ > 0) {
      --left_;
      ++used_;
    }
  }
  int used() {
    std::lock_guard lock(mutex_);
    return used_;
  }
  bool WaitUntilIdleAt(int used) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return used_ == used && waiting_ == 1; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  int used_ = 0;
  int waiting_ = 0;
};

class PermittedEngine : public fault::FakeEngine {
 public:
  PermittedEngine(Permits& permits, fault::FakeEngineOptions options)
      : FakeEngine(TinyConfig(), options), permits_(permits) {}
  absl::StatusOr<engine::UnitResult> Run(const engine::Unit& unit, const engine::CancelFlag& cancel,
                                         engine::BatchObserver* observer) override {
    engine::UnitResult all;
    for (const engine::Row& row : unit.rows) {
      permits_.Take(cancel);
      engine::Unit one = unit;
      one.rows = {row};
      auto result = FakeEngine::Run(one, cancel, observer);
      if (!result.ok()) return result.status();
      all.rows.push_back(std::move(result->rows[0]));
      all.tokens += result->tokens;
    }
    return all;
  }

 private:
  Permits& permits_;
};

class AgentTest : public ::testing::Test {
 protected:
  AgentTest() : server_(TinyManifest()), channel_(rpc::MakeChannel(server_.address())) {
    stub_ = v1::WorkerService::NewStub(channel_);
    options_.worker = "host-cpu";
    options_.instance = "instance-1";
    options_.device.set_kind("cpu");
    options_.device.set_threads(1);
  }
  ~AgentTest() override { Finish().IgnoreError(); }

  void Begin() {
    agent_ = std::make_unique<Agent>(
        options_, stub_.get(),
        [this](const std::string& model, v1::DType) -> absl::StatusOr<LoadedEngine> {
          ++loads_;
          if (model == "broken") {
            return WithReason(absl::FailedPreconditionError("config.json: no"), "BAD_MODEL");
          }
          return LoadedEngine{std::make_unique<PermittedEngine>(permits_, engine_options_),
                              "float32"};
        },
        [](const v1::Workload& workload, const engine::CancelFlag&,
           const std::function<void(int64_t, int64_t)>& progress) -> absl::StatusOr<std::string> {
          progress(5, 8);
          if (workload.model() == "broken") {
            return absl::InvalidArgumentError("task quiz: doc_to_text: row 3");
          }
          return "manifest of " + workload.model();
        },
        Clock::System());
    thread_ = std::thread([this] { end_ = agent_->Run(); });
  }
  // Drains and joins; the status that Run gave.
  absl::Status Finish() {
    if (thread_.joinable()) {
      agent_->Drain();
      permits_.AllowAll();
      thread_.join();
    }
    return end_;
  }
  absl::Status Join() {
    thread_.join();
    return end_;
  }
  size_t Stored() { return server_.stored().size(); }

  // Chunks of an undisturbed run, for comparison.
  std::map<ScriptedServer::UnitKey, std::string> Data() {
    std::map<ScriptedServer::UnitKey, std::string> data;
    const auto stored = server_.stored();
    for (const auto& [key, report] : stored) data[key] = report.data;
    return data;
  }

  ScriptedServer server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  AgentOptions options_;
  Permits permits_;
  fault::FakeEngineOptions engine_options_;
  std::atomic<int> loads_ = 0;
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
  absl::Status end_;
};

const std::string kTask = "projects/default/jobs/j/tasks/1";

TEST_F(AgentTest, RunsAScoreTaskAndReportsItsEnd) {
  permits_.AllowAll();
  Begin();
  server_.WantTask(MakeTask("score", 3));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  const v1::SynchronizeRequest done = server_.Last(Phase::DONE);
  EXPECT_EQ(done.worker(), "host-cpu");
  EXPECT_EQ(done.loaded_model(), "tiny");
  EXPECT_EQ(done.task().units_done(), 3);
  EXPECT_GT(done.rows_per_second(), 0);
  EXPECT_GT(done.tokens_per_second(), 0);
  ASSERT_THAT(server_.stored(), SizeIs(3));
  const auto report = server_.stored().at({"projects/default/jobs/j", "score", 1});
  EXPECT_EQ(report.header.attempt(), 1);
  EXPECT_GT(report.header.tokens(), 0);
  v1::ScoreChunk chunk;
  ASSERT_TRUE(format::Unframe(format::FrameKind::kScoreChunk, report.data, &chunk).ok());
  EXPECT_EQ(chunk.first_sample(), 2);
  EXPECT_EQ(chunk.samples(), 2);
  EXPECT_EQ(chunk.results_size(), 2);
  EXPECT_EQ(chunk.results(0).log_likelihoods_size(), 2);
  EXPECT_EQ(chunk.slabs_size(), 7);
  EXPECT_EQ(chunk.slabs(0).values().size(), 2u * 2 * 4 * 4);
  EXPECT_EQ(chunk.run().dtype(), "float32");
  EXPECT_TRUE(Finish().ok());
}

TEST_F(AgentTest, RunsPrepare) {
  Begin();
  v1::Task task = MakeTask("prepare", 1);
  task.mutable_workload()->set_model("tiny");
  server_.WantTask(task);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  EXPECT_EQ(server_.stored().at({task.job(), "prepare", 0}).data, "manifest of tiny");
  EXPECT_EQ(loads_, 0);  // no model is loaded for it
}

TEST_F(AgentTest, KeepsTheModelUntilAnotherIsNeeded) {
  permits_.AllowAll();
  Begin();
  int number = 0;
  for (const char* model : {"tiny", "tiny", "other", "tiny"}) {
    v1::Task task = MakeTask("ablate", 1, 1, "task-" + std::to_string(number++));
    task.set_model(model);
    server_.WantTask(task);
    ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(task.name(), Phase::DONE); }));
  }
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(server_.slices(), 1);  // nor are the same samples fetched again
}

TEST_F(AgentTest, UnloadsAModelThatNobodyUses) {
  permits_.AllowAll();
  options_.idle_unload = std::chrono::milliseconds(1);
  Begin();
  server_.WantTask(MakeTask("score", 1));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Latest().loaded_model().empty(); }));
  server_.WantTask(MakeTask("score", 1, 1, "task-2"));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen("task-2", Phase::DONE); }));
  EXPECT_EQ(loads_, 2);
}

TEST_F(AgentTest, ErrorsOfATaskGoToTheServer) {
  Begin();
  v1::Task task = MakeTask("score", 1);
  task.set_model("broken");
  server_.WantTask(task);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::FAILED); }));
  const google::rpc::Status error = server_.Last(Phase::FAILED).task().error();
  EXPECT_EQ(error.code(), 9);  // FAILED_PRECONDITION
  EXPECT_THAT(error.message(), HasSubstr("model broken: config.json: no"));

  v1::Task prepare = MakeTask("prepare", 1, 1, "task-2");
  prepare.mutable_workload()->set_model("broken");
  server_.WantTask(prepare);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen("task-2", Phase::FAILED); }));
  EXPECT_EQ(server_.Last(Phase::FAILED).task().error().code(), 3);  // INVALID_ARGUMENT
}

TEST_F(AgentTest, ARuleThatDoesNotFitTheModelFailsTheTask) {
  permits_.AllowAll();
  Begin();
  v1::Task task = MakeTask("ablate", 1);
  task.mutable_rules(0)->mutable_fixed_heads()->add_heads()->set_layer(2);
  server_.WantTask(task);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::FAILED); }));
  EXPECT_THAT(server_.Last(Phase::FAILED).task().error().message(),
              HasSubstr("unit 0: rule 0: head (2, 0)"));
}

TEST_F(AgentTest, SamplesAreCheckedAgainstTheirDigest) {
  permits_.AllowAll();
  server_.DamageSample(1);
  Begin();
  server_.WantTask(MakeTask("score", 1));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::FAILED); }));
  const google::rpc::Status error = server_.Last(Phase::FAILED).task().error();
  EXPECT_EQ(error.code(), 15);  // DATA_LOSS
  EXPECT_THAT(error.message(), HasSubstr("quiz/1/0"));
  EXPECT_EQ(Stored(), 0u);
}

TEST_F(AgentTest, NonFiniteSamplesAreRecordedNotFatal) {
  engine_options_.non_finite_key = RandomKey(0, "quiz/1/0");
  permits_.AllowAll();
  Begin();
  server_.WantTask(MakeTask("score", 1));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  v1::ScoreChunk chunk;
  ASSERT_TRUE(
      format::Unframe(format::FrameKind::kScoreChunk, server_.stored().begin()->second.data, &chunk)
          .ok());
  EXPECT_FALSE(chunk.results(0).non_finite());
  EXPECT_TRUE(chunk.results(1).non_finite());
}

TEST_F(AgentTest, ALostLeaseIsDropped) {
  permits_.Allow(2);  // the first unit
  server_.AnswerReports({{grpc::StatusCode::ABORTED, "stale attempt"}});
  Begin();
  server_.WantTask(MakeTask("score", 4));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.reports() == 1; }));
  server_.WantTask(MakeTask("score", 4, /*attempt=*/2));
  permits_.AllowAll();
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  EXPECT_EQ(server_.Last(Phase::DONE).task().attempt(), 2);
  EXPECT_EQ(Stored(), 4u);
  const auto stored = server_.stored();
  for (const auto& [key, report] : stored) EXPECT_EQ(report.header.attempt(), 2);
  EXPECT_EQ(server_.duplicates(), 0);
}

TEST_F(AgentTest, AnAnswerThatGetsLostIsResent) {
  permits_.AllowAll();
  server_.LoseNextAnswer();
  Begin();
  server_.WantTask(MakeTask("ablate", 2));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  EXPECT_EQ(server_.duplicates(), 1);
  EXPECT_EQ(Stored(), 2u);
  EXPECT_EQ(server_.Last(Phase::DONE).task().units_done(), 2);
}

TEST_F(AgentTest, GoesOnWhileTheServerIsAway) {
  permits_.Allow(2);
  Begin();
  server_.WantTask(MakeTask("ablate", 4));
  ASSERT_TRUE(permits_.WaitUntilIdleAt(2));
  server_.Stop();
  permits_.AllowAll();
  while (permits_.used() < 16) std::this_thread::yield();  // all rows, without a server
  EXPECT_LE(Stored(), 1u);  // the first unit may have gone out before
  server_.Start();
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  EXPECT_EQ(Stored(), 4u);
  EXPECT_EQ(permits_.used(), 16);  // nothing was computed twice
}

TEST_F(AgentTest, ChunksDoNotDependOnDisturbances) {
  permits_.AllowAll();
  Begin();
  server_.WantTask(MakeTask("ablate", 4));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  const auto whole = Data();
  // The same units in another task, another order and another slice.
  v1::Task task = MakeTask("ablate", 4, 1, "task-2");
  task.set_job("projects/default/jobs/k");
  task.mutable_units()->SwapElements(0, 3);
  server_.WantTask(task);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen("task-2", Phase::DONE); }));
  const auto both = Data();
  for (int64_t unit = 0; unit < 4; ++unit) {
    EXPECT_EQ(both.at({"projects/default/jobs/k", "ablate", unit}),
              whole.at({"projects/default/jobs/j", "ablate", unit}));
  }
}

TEST_F(AgentTest, CancelTakesEffectBetweenBatches) {
  permits_.Allow(3);  // one unit of two rows, and half of the next
  Begin();
  server_.WantTask(MakeTask("score", 4));
  ASSERT_TRUE(permits_.WaitUntilIdleAt(3));
  v1::SynchronizeResponse cancel;
  cancel.mutable_cancel()->set_task(kTask);
  server_.Want(cancel);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::RELEASED); }));
  EXPECT_EQ(permits_.used(), 3);
  // The worker is free for another task.
  permits_.AllowAll();
  server_.WantTask(MakeTask("score", 1, 1, "task-2"));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen("task-2", Phase::DONE); }));
}

TEST_F(AgentTest, DrainHandsInWhatIsComputedAndEnds) {
  permits_.Allow(3);
  Begin();
  server_.WantTask(MakeTask("score", 4));
  ASSERT_TRUE(permits_.WaitUntilIdleAt(3));
  agent_->Drain();
  EXPECT_TRUE(Join().ok());
  EXPECT_TRUE(server_.Seen(kTask, Phase::RELEASED));
  EXPECT_TRUE(server_.Last(Phase::RELEASED).draining());
  EXPECT_EQ(Stored(), 1u);
}

TEST_F(AgentTest, DrainDoesNotWaitForACallThatIsHeld) {
  permits_.AllowAll();
  server_.HoldEnds();
  Begin();
  server_.WantTask(MakeTask("score", 1));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::DONE); }));
  const auto begin = Clock::System().Monotonic();
  EXPECT_TRUE(Finish().ok());
  EXPECT_LT(Clock::System().Monotonic() - begin, std::chrono::seconds(8));
}

TEST_F(AgentTest, TheServerMayDrainAnIdleWorker) {
  Begin();
  v1::SynchronizeResponse drain;
  drain.mutable_drain()->set_reason("maintenance");
  server_.Want(drain);
  EXPECT_TRUE(Join().ok());
}

TEST_F(AgentTest, EndsWithoutAServer) {
  server_.Stop();
  options_.orphan_exit = std::chrono::milliseconds(1);
  Begin();
  const absl::Status end = Join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
}

TEST_F(AgentTest, DrainsWithoutAServer) {
  server_.Stop();
  Begin();
  EXPECT_TRUE(Finish().ok());
}

TEST_F(AgentTest, ResultsThatWaitAreBounded) {
  permits_.AllowAll();
  options_.result_bytes = 1;  // one chunk at a time
  server_.AnswerReports(
      std::deque<grpc::Status>(1'000, grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now")));
  Begin();
  server_.WantTask(MakeTask("score", 4));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.reports() >= 2; }));
  EXPECT_LE(permits_.used(), 4);  // the chunk that waits, and the one that waits for room
  v1::SynchronizeResponse cancel;
  cancel.mutable_cancel()->set_task(kTask);
  server_.Want(cancel);
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::RELEASED); }));
  EXPECT_EQ(Stored(), 0u);
}

TEST_F(AgentTest, AChunkThatIsRefusedForGoodFailsTheTask) {
  permits_.AllowAll();
  server_.AnswerReports({{grpc::StatusCode::INVALID_ARGUMENT, "bad shape"}});
  Begin();
  server_.WantTask(MakeTask("score", 2));
  ASSERT_TRUE(server_.WaitFor([&] { return server_.Seen(kTask, Phase::FAILED); }));
  EXPECT_THAT(server_.Last(Phase::FAILED).task().error().message(), HasSubstr("bad shape"));
}

}  // namespace
}  // namespace headcount::agent
