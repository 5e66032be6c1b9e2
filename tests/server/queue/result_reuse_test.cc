// Work that an earlier job has done is not done again, and work that only looks the same is.

#include "server/queue/result_reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/server/queue/fake_worker.h"

namespace headcount::queue {
namespace {

using store::Stage;
using testing::HasSubstr;

constexpr char kWorkload[] = "workload { model: 'tiny' task { task: 'pairs' } }";

std::string Sweep(const std::string& scores, const std::string& workload = kWorkload) {
  return "sweep { " + workload + " " + scores + " fractions: [.1, .3] }";
}

std::string Threshold(double value) {
  return absl::StrCat(" rules { threshold { score: 'entropy' value: ", value, " } }");
}

std::string Ablate(const std::string& rules, const std::string& workload = kWorkload) {
  return "ablate { " + workload + rules + " }";
}

// Six documents of two samples; units of four samples and two rules.
class ResultReuseTest : public testing::Test {
 protected:
  // Creates the job and lets the worker do what is left.
  std::string Finish(const std::string& id, const std::string& spec) {
    const std::string job = server_.Create(id, spec);
    while (worker_.Step()) {
    }
    EXPECT_EQ(server_.Get(job).state(), v1::Job::SUCCEEDED) << id;
    return job;
  }

  // Units that it computed itself, without its manifest.
  int64_t Computed(const std::string& job) {
    int64_t computed = 0;
    for (const v1::JobEvent& event : server_.Events(job)) {
      computed += event.has_unit_stored() && event.unit_stored().stage() != "prepare";
    }
    const v1::Progress progress = server_.Get(job).progress();
    EXPECT_EQ(progress.done_units(), progress.total_units());
    return computed;
  }

  std::map<int, std::string> FinalPoints(const std::string& job) {
    std::map<int, std::string> points;
    for (const v1::JobEvent& event : server_.Events(job)) {
      if (event.has_curve_point() && event.curve_point().final()) {
        points[event.curve_point().rule()] = event.curve_point().SerializeAsString();
      }
    }
    return points;
  }

  std::vector<std::string> Digests(const std::string& job, Stage stage) {
    std::vector<std::string> digests;
    const auto chunks = server_.jobs->ListChunks(job, stage, 0, 1000);
    for (const store::ChunkRecord& chunk : *chunks) digests.push_back(chunk.digest);
    return digests;
  }

  // Log-likelihoods and masks of a rule of the ablate stage over all samples.
  std::string Rows(const std::string& job, int rule) {
    std::string rows;
    const auto chunks = server_.jobs->ListChunks(job, Stage::kAblate, 0, 1000);
    for (const store::ChunkRecord& record : *chunks) {
      v1::AblateChunk chunk;
      EXPECT_TRUE(format::Unframe(format::FrameKind::kAblateChunk,
                                  *server_.artifacts->Get(record.digest), &chunk)
                      .ok());
      const int row = rule - chunk.first_rule();
      if (row < 0 || row >= chunk.rules()) continue;
      for (int i = 0; i < chunk.samples(); ++i) {
        rows += chunk.results(row * chunk.samples() + i).SerializeAsString();
      }
      const int bytes = 4 * chunk.layers() * chunk.heads();
      rows += chunk.zeroed().substr(row * bytes, bytes);
    }
    return rows;
  }

  TestServer server_;
  FakeWorker worker_{server_, "w", 6};
};

TEST_F(ResultReuseTest, TheSameSweepAgainEndsAtOnce) {
  const std::string first = Finish("a", Sweep("scores: ['entropy', 'random']"));
  EXPECT_EQ(Computed(first), 3 + 2 * 3);
  const std::string second = server_.Create("b", Sweep("scores: ['entropy', 'random']"));
  const v1::Job job = server_.Get(second);
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(job.attempt(), 0);
  EXPECT_EQ(job.progress().reused_units(), 9);
  ASSERT_EQ(job.provenance().reused_size(), 2);
  EXPECT_EQ(job.provenance().reused(1).job(), first);
  EXPECT_EQ(job.provenance().reused(1).stage(), "ablate");
  EXPECT_EQ(job.provenance().device_kind(), server_.Get(first).provenance().device_kind());
  EXPECT_EQ(FinalPoints(second), FinalPoints(first));
  EXPECT_EQ(FinalPoints(second).size(), 5u);
  EXPECT_EQ(Digests(second, Stage::kScore), Digests(first, Stage::kScore));
  EXPECT_EQ(Digests(second, Stage::kAblate), Digests(first, Stage::kAblate));
}

TEST_F(ResultReuseTest, ARuleIsFoundWhateverStoodBesideIt) {
  const std::string first = Finish("a", Ablate(Threshold(.1) + Threshold(.2) + Threshold(.3)));
  const std::string second = Finish("b", Ablate(Threshold(.3) + Threshold(.1)));
  EXPECT_EQ(Computed(second), 0);
  EXPECT_EQ(Rows(second, 0), Rows(first, 0));  // the baseline
  EXPECT_EQ(Rows(second, 1), Rows(first, 3));
  EXPECT_EQ(Rows(second, 2), Rows(first, 1));
  EXPECT_NE(Rows(second, 1), Rows(second, 2));
}

TEST_F(ResultReuseTest, OnlyWhatIsNewIsComputed) {
  Finish("a", Ablate(Threshold(.1)));
  // [none, .1] is there, [.2] is not.
  EXPECT_EQ(Computed(Finish("b", Ablate(Threshold(.1) + Threshold(.2)))), 3);
  // A sweep has a score stage beside what an ablate job has.
  EXPECT_EQ(Computed(Finish("c", Sweep("scores: 'entropy'"))), 6);
  EXPECT_EQ(Computed(Finish("d", std::string("score { ") + kWorkload + " }")), 0);
  EXPECT_EQ(Computed(Finish("e", Sweep("scores: ['value_norm', 'entropy']"))), 3);
}

TEST_F(ResultReuseTest, WhatDiffersIsComputed) {
  const std::string rule = " rules { random { p: .2 seed: 7 } }";
  Finish("a", Ablate(rule));
  int id = 0;
  auto computed = [&](const std::string& spec) {
    return Computed(Finish(absl::StrCat("other", ++id), spec));
  };
  EXPECT_EQ(computed(Ablate(rule)), 0);
  EXPECT_EQ(computed(Ablate(" rules { random { p: .2 seed: 8 } }")), 3);
  EXPECT_EQ(computed(Ablate(" rules { random { p: .2 seed: 7 } layers { include: 1 } }")), 3);
  EXPECT_EQ(computed(Ablate(rule, "workload { model: 'chatty' task { task: 'pairs' } }")), 3);
  EXPECT_EQ(computed(Ablate(rule,
                            "workload { model: 'tiny' dtype: DTYPE_BFLOAT16 "
                            "task { task: 'pairs' } }")),
            3);
  EXPECT_EQ(computed(Ablate(rule, "workload { model: 'tiny' task { task: 'pairs' } fresh: true }")),
            3);
  server_.catalog.task_digest = "edited";
  EXPECT_EQ(computed(Ablate(rule)), 3);
}

TEST_F(ResultReuseTest, OtherTokensAreComputed) {
  Finish("a", Ablate(Threshold(.1)));
  server_.catalog.tokenizer_digest = "another";
  v1::Manifest other = plan::Pairs(6);
  other.mutable_samples(11)->set_suffix(0, 77);
  FakeWorker worker(server_, "x", other);
  const std::string job = server_.Create("b", Ablate(Threshold(.1)));
  while (worker.Step()) {
  }
  EXPECT_EQ(Computed(job), 1);  // only the last block of samples has changed
}

TEST_F(ResultReuseTest, AChunkThatIsGoneIsComputedAgain) {
  const std::string first = Finish("a", Ablate(Threshold(.1)));
  const std::vector<std::string> digests = Digests(first, Stage::kAblate);
  const auto live = server_.jobs->LiveDigests();
  std::set<std::string> kept(live->begin(), live->end());
  kept.erase(digests[1]);
  ASSERT_TRUE(server_.artifacts->Collect(kept).ok());
  const std::string second = Finish("b", Ablate(Threshold(.1)));
  EXPECT_EQ(Computed(second), 1);
  EXPECT_EQ(Digests(second, Stage::kAblate), digests);
}

TEST_F(ResultReuseTest, ResultsOfAJobThatWasDeletedAreStillThereForThoseThatShareThem) {
  const std::string first = Finish("a", Ablate(Threshold(.1)));
  const std::string second = Finish("b", Ablate(Threshold(.1)));
  ASSERT_TRUE(server_.jobs->DeleteJob(first, "").ok());
  const std::string third = Finish("c", Ablate(Threshold(.1)));
  EXPECT_EQ(Computed(third), 0);
  EXPECT_EQ(server_.Get(third).provenance().reused(0).job(), second);
  ASSERT_TRUE(server_.jobs->DeleteJob(second, "").ok());
  ASSERT_TRUE(server_.jobs->DeleteJob(third, "").ok());
  EXPECT_EQ(Computed(Finish("d", Ablate(Threshold(.1)))), 3);
}

}  // namespace
}  // namespace headcount::queue
