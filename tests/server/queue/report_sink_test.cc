// What the report sink takes and what it refuses: nothing of a refused chunk is kept.

#include "server/queue/report_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/base/errors.h"
#include "tests/server/queue/fake_worker.h"

namespace headcount::queue {
namespace {

using format::FrameKind;
using store::Stage;
using testing::HasSubstr;

constexpr char kSweep[] =
    "sweep { workload { model: 'tiny' task { task: 'pairs' } } scores: 'entropy' fractions: .1 }";

class ReportSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    job_ = server_.Create("a", kSweep);
    worker_.Call(worker_.Request());
  }

  // Runs the job until the worker has a task of that stage.
  void Reach(const std::string& stage) {
    while (worker_.task().value_or(v1::Task()).stage() != stage) ASSERT_TRUE(worker_.Step());
  }

  absl::StatusOr<v1::ReportResultsResponse> Send(v1::ReportHeader header,
                                                 const std::string& bytes) {
    header.set_bytes(static_cast<int64_t>(bytes.size()));
    header.set_crc32c(Crc32c(bytes));
    return server_.sink->Report(header, bytes);
  }

  // The first unit of the task, with its payload changed: refused, nothing stored, then the true
  // one is taken.
  template <typename Chunk>
  void ExpectRefused(FrameKind kind, const char* what, const std::function<void(Chunk*)>& change,
                     const std::string& names,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    SCOPED_TRACE(what);
    Chunk chunk;
    ASSERT_TRUE(format::Unframe(kind, worker_.Chunk(0), &chunk).ok());
    change(&chunk);
    const int64_t before = *server_.jobs->LastSequence(job_);
    const auto answer = Send(worker_.Header(0), format::Frame(kind, chunk));
    EXPECT_EQ(answer.status().code(), code) << answer.status();
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(names));
    EXPECT_TRUE(ReasonOf(answer.status()).has_value()) << answer.status();
    EXPECT_EQ(*server_.jobs->LastSequence(job_), before);
  }

  TestServer server_;
  FakeWorker worker_{server_, "w", 6};
  std::string job_;
};

TEST_F(ReportSinkTest, AUnitIsStoredOnceAndAResendIsADuplicate) {
  const auto stored = worker_.Report(0);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->outcome(), v1::ReportResultsResponse::STORED);
  const int64_t before = *server_.jobs->LastSequence(job_);
  const auto again = worker_.Report(0);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->outcome(), v1::ReportResultsResponse::DUPLICATE);
  EXPECT_EQ(*server_.jobs->LastSequence(job_), before);
}

TEST_F(ReportSinkTest, TheFirstChunkOfAUnitWins) {
  Reach("score");
  ASSERT_TRUE(worker_.Report(0).ok());
  v1::ScoreChunk other;
  ASSERT_TRUE(format::Unframe(FrameKind::kScoreChunk, worker_.Chunk(0), &other).ok());
  other.mutable_results(0)->set_log_likelihoods(0, -9);
  const auto answer = Send(worker_.Header(0), format::Frame(FrameKind::kScoreChunk, other));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->outcome(), v1::ReportResultsResponse::DUPLICATE);
  const auto chunks = server_.jobs->ListChunks(job_, Stage::kScore, 0, 1);
  EXPECT_EQ(server_.artifacts->Get(chunks->at(0).digest).value(), worker_.Chunk(0));
}

TEST_F(ReportSinkTest, BytesThatChangedOnTheWayAreToBeSentAgain) {
  const std::string bytes = worker_.Chunk(0);
  v1::ReportHeader header = worker_.Header(0);
  header.set_bytes(static_cast<int64_t>(bytes.size()));
  header.set_crc32c(Crc32c(bytes));
  std::string broken = bytes;
  broken[bytes.size() / 2] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(server_.sink->Report(header, broken).status()));
  EXPECT_TRUE(
      absl::IsDataLoss(server_.sink->Report(header, bytes.substr(0, bytes.size() - 1)).status()));
  EXPECT_TRUE(server_.sink->Report(header, bytes).ok());
}

TEST_F(ReportSinkTest, AStaleAttemptIsRefused) {
  v1::ReportHeader header = worker_.Header(0);
  header.set_attempt(7);
  const auto answer = Send(header, worker_.Chunk(0));
  EXPECT_TRUE(absl::IsAborted(answer.status())) << answer.status();
  EXPECT_EQ(ReasonOf(answer.status()), "LEASE_LOST");
  EXPECT_TRUE(server_.jobs->ListChunks(job_, Stage::kPrepare, 0, 10)->empty());
}

TEST_F(ReportSinkTest, AUnitThatIsNotLeasedIsRefused) {
  Reach("score");
  ASSERT_EQ(worker_.task()->unit_count(), 1);
  v1::ReportHeader header = worker_.Header(0);
  header.set_unit(2);
  v1::ScoreChunk chunk;
  ASSERT_TRUE(format::Unframe(FrameKind::kScoreChunk, worker_.Chunk(0), &chunk).ok());
  chunk.set_first_sample(8);
  EXPECT_TRUE(absl::IsAborted(Send(header, format::Frame(FrameKind::kScoreChunk, chunk)).status()));
}

TEST_F(ReportSinkTest, WhatDoesNotExistIsNotFound) {
  v1::ReportHeader header = worker_.Header(0);
  header.set_job(JobName("none"));
  EXPECT_TRUE(absl::IsNotFound(Send(header, worker_.Chunk(0)).status()));
  header = worker_.Header(0);
  header.set_stage("ablate");
  EXPECT_TRUE(absl::IsNotFound(Send(header, worker_.Chunk(0)).status()));
  header = worker_.Header(0);
  header.set_stage("cook");
  EXPECT_TRUE(absl::IsInvalidArgument(Send(header, worker_.Chunk(0)).status()));
  header = worker_.Header(0);
  header.set_unit(1);
  EXPECT_TRUE(absl::IsOutOfRange(Send(header, worker_.Chunk(0)).status()));
}

TEST_F(ReportSinkTest, AnIntactTransferOfABrokenFrameIsTheWorkersFault) {
  const auto answer = Send(worker_.Header(0), "not a frame at all, but long enough to be one");
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
  EXPECT_EQ(ReasonOf(answer.status()), "BAD_CHUNK");
}

TEST_F(ReportSinkTest, AChunkOfTheWrongKindIsRefused) {
  const auto answer =
      Send(worker_.Header(0), format::Frame(FrameKind::kScoreChunk, v1::ScoreChunk()));
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
}

TEST_F(ReportSinkTest, ScoreChunksMustFitThePlan) {
  Reach("score");
  using Chunk = v1::ScoreChunk;
  auto refuse = [this](const char* what, const std::function<void(Chunk*)>& change,
                       const char* names) {
    ExpectRefused<Chunk>(FrameKind::kScoreChunk, what, change, names);
  };
  refuse("samples", [](Chunk* c) { c->set_samples(3); }, "samples: must be 4, is 3");
  refuse("first sample", [](Chunk* c) { c->set_first_sample(4); }, "first_sample");
  refuse("layers", [](Chunk* c) { c->set_layers(3); }, "layers: must be 2, is 3");
  refuse("heads", [](Chunk* c) { c->set_heads(2); }, "heads: must be 3");
  refuse("head size", [](Chunk* c) { c->set_head_dim(8); }, "head_dim");
  refuse(
      "short slab", [](Chunk* c) { c->mutable_slabs(1)->mutable_values()->pop_back(); },
      "slab entropy bytes");
  refuse(
      "slab missing", [](Chunk* c) { c->mutable_slabs()->RemoveLast(); },
      "slab projected: is missing");
  refuse("slab twice", [](Chunk* c) { *c->add_slabs() = c->slabs(0); }, "is there twice");
  refuse("results", [](Chunk* c) { c->mutable_results()->RemoveLast(); }, "results");
  refuse(
      "log-likelihoods", [](Chunk* c) { c->mutable_results(0)->add_log_likelihoods(0); },
      "log_likelihoods");
  refuse(
      "head sums", [](Chunk* c) { c->mutable_head_sums()->mutable_rest()->pop_back(); },
      "head_sums.rest");
  ExpectRefused<Chunk>(
      FrameKind::kScoreChunk, "numerics",
      [](Chunk* c) { c->mutable_run()->set_numerics_version(99); }, "numerics_version",
      absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(worker_.Report(0).ok());
}

TEST_F(ReportSinkTest, AblateChunksMustFitThePlan) {
  Reach("ablate");
  using Chunk = v1::AblateChunk;
  auto refuse = [this](const char* what, const std::function<void(Chunk*)>& change,
                       const char* names) {
    ExpectRefused<Chunk>(FrameKind::kAblateChunk, what, change, names);
  };
  refuse("rules", [](Chunk* c) { c->set_rules(2); }, "rules: must be 1, is 2");
  refuse("first rule", [](Chunk* c) { c->set_first_rule(1); }, "first_rule");
  refuse("zeroed", [](Chunk* c) { c->mutable_zeroed()->pop_back(); }, "zeroed bytes");
  refuse("mask", [](Chunk* c) { c->mutable_results(0)->clear_mask(); }, "mask");
  refuse("mask bits", [](Chunk* c) { c->mutable_results(0)->set_mask("\xff"); }, "mask");
  refuse("results", [](Chunk* c) { *c->add_results() = c->results(0); }, "results");
  ASSERT_TRUE(worker_.Report(0).ok());
}

TEST_F(ReportSinkTest, ManifestsAreChecked) {
  auto refuse = [this](const char* what, const std::function<void(v1::Manifest*)>& change,
                       const char* names) {
    ExpectRefused<v1::Manifest>(FrameKind::kManifest, what, change, names);
  };
  refuse("empty", [](v1::Manifest* m) { m->Clear(); }, "samples");
  refuse(
      "token beyond the vocabulary",
      [](v1::Manifest* m) { m->mutable_samples(3)->set_suffix(0, 100); }, "samples[3].suffix");
  refuse(
      "negative token", [](v1::Manifest* m) { m->mutable_groups(1)->set_prefix(0, -1); },
      "groups[1].prefix");
  refuse(
      "target", [](v1::Manifest* m) { m->mutable_samples(0)->set_targets(0, 1000); },
      "samples[0].targets");
  refuse(
      "too long",
      [](v1::Manifest* m) {
        for (int i = 0; i < 64; ++i) m->mutable_samples(2)->add_suffix(1);
      },
      "samples[2] tokens");
  refuse(
      "no tokens",
      [](v1::Manifest* m) {
        m->mutable_groups(0)->clear_prefix();
        m->mutable_samples(0)->clear_suffix();
      },
      "samples[0] tokens");
  refuse(
      "scored beyond the input", [](v1::Manifest* m) { m->mutable_samples(0)->set_scored(4); },
      "samples[0].scored");
  refuse(
      "targets", [](v1::Manifest* m) { m->mutable_samples(0)->add_targets(1); },
      "samples[0].targets");
  refuse(
      "group", [](v1::Manifest* m) { m->mutable_samples(0)->set_group(12); }, "samples[0].group");
  refuse(
      "document", [](v1::Manifest* m) { m->mutable_samples(0)->set_document(-1); },
      "samples[0].document");
  refuse(
      "choice", [](v1::Manifest* m) { m->mutable_samples(0)->set_choices(0, 2); },
      "samples[0].choices");
  refuse(
      "gold", [](v1::Manifest* m) { m->mutable_documents(0)->set_gold(2); }, "documents[0].gold");
  refuse(
      "groups out of order", [](v1::Manifest* m) { m->mutable_samples()->SwapElements(0, 11); },
      "samples[0].group");
  refuse(
      "document in two groups", [](v1::Manifest* m) { m->mutable_samples(2)->set_document(0); },
      "samples[2].document");
  refuse("a group without samples", [](v1::Manifest* m) { m->add_groups(); }, "groups");
  refuse("a document without samples", [](v1::Manifest* m) { m->add_documents(); }, "documents");
  const auto generates = [](v1::Manifest* m) {
    m->mutable_generation()->set_max_new_tokens(5);
    m->set_metrics(0, "exact_match,none");
    m->add_answer_metrics()->set_name("exact_match,none");
  };
  refuse("choices to continue", [&](v1::Manifest* m) { generates(m); }, "samples[0].choices");
  refuse(
      "no new tokens",
      [&](v1::Manifest* m) {
        generates(m);
        m->mutable_generation()->set_max_new_tokens(0);
      },
      "generation.max_new_tokens");
  refuse(
      "no room for new tokens",
      [&](v1::Manifest* m) {
        generates(m);
        m->mutable_generation()->set_max_new_tokens(62);
      },
      "samples[0] tokens: must be in [1, 2]");
  refuse(
      "stop token",
      [&](v1::Manifest* m) {
        generates(m);
        m->mutable_generation()->add_stop_tokens(100);
      },
      "generation.stop_tokens");
  refuse(
      "metrics of nothing",
      [&](v1::Manifest* m) {
        generates(m);
        m->clear_answer_metrics();
      },
      "answer_metrics");
  refuse(
      "expression",
      [&](v1::Manifest* m) {
        generates(m);
        m->mutable_answer_metrics(0)->add_regexes_to_ignore("(");
      },
      "regular expression");
  ASSERT_TRUE(worker_.Report(0).ok());
}

TEST_F(ReportSinkTest, WhatTheJobStandsOnMayBeGone) {
  Reach("score");
  const std::string bytes = worker_.Chunk(0);
  server_.catalog.missing = "tiny";
  EXPECT_TRUE(absl::IsFailedPrecondition(Send(worker_.Header(0), bytes).status()));
  server_.catalog.missing.clear();
  server_.artifacts = store::ArtifactStore::InMemory();
  ManifestCache manifests(*server_.artifacts);
  ResultReuse reuse(*server_.jobs, *server_.artifacts, server_.catalog);
  ReportSink sink(*server_.jobs, *server_.artifacts, server_.catalog, manifests, reuse, nullptr);
  v1::ReportHeader header = worker_.Header(0);
  header.set_bytes(static_cast<int64_t>(bytes.size()));
  header.set_crc32c(Crc32c(bytes));
  EXPECT_TRUE(absl::IsFailedPrecondition(sink.Report(header, bytes).status()));
}

TEST_F(ReportSinkTest, CountsAndProvenanceAreKept) {
  while (worker_.Step()) {
  }
  const v1::Job job = server_.Get(job_);
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(job.provenance().dtype(), "float32");
  EXPECT_EQ(job.provenance().device_kind(), "cpu");
  EXPECT_EQ(job.provenance().threads(), 1);
  const auto chunks = server_.jobs->ListChunks(job_, Stage::kAblate, 0, 10);
  ASSERT_EQ(chunks->size(), 3u);
  EXPECT_EQ(chunks->at(0).counts.rows(), 4);
  ASSERT_EQ(chunks->at(0).counts.rules_size(), 1);
  EXPECT_EQ(chunks->at(0).counts.rules(0).rule(), 0);
  EXPECT_EQ(chunks->at(0).counts.rules(0).documents(), 2);
  EXPECT_GT(chunks->at(0).counts.rules(0).share_sum(), 0);
  const auto scores = server_.jobs->ListChunks(job_, Stage::kScore, 0, 10);
  EXPECT_EQ(scores->at(0).counts.rules(0).rule(), -1);
}

TEST_F(ReportSinkTest, AnAblateJobsBaselineIsShownAsRuleMinusOne) {
  const std::string job = server_.Create(
      "b",
      "ablate { workload { model: 'tiny' task { task: 'pairs' } } rules { random { p: .5 } } }");
  while (worker_.Step()) {
  }
  const auto chunks = server_.jobs->ListChunks(job, Stage::kAblate, 0, 10);
  ASSERT_EQ(chunks->size(), 3u);
  EXPECT_EQ(chunks->at(0).counts.rules(0).rule(), -1);
  EXPECT_EQ(chunks->at(0).counts.rules(1).rule(), 0);
  EXPECT_EQ(chunks->at(0).counts.rules(0).share_sum(), 0);
}

}  // namespace
}  // namespace headcount::queue
