// ResultService over the wire, on a sweep whose chunks are made up: the streams are whole, the
// downloads can be taken up anywhere, and what is not there is said.

#include <gmock/gmock.h>

#include "common/base/digest.h"
#include "tests/server/api/harness.h"
#include "tests/server/api/scripted_worker.h"

namespace headcount::server {
namespace {

using Results = v1::ResultService::Stub;

class ResultsTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    worker_ = std::make_unique<ScriptedWorker>(server_->endpoints().worker_listen);
  }
  void TearDown() override { worker_.reset(); }

  std::string FinishedSweep() {
    worker_->Run();
    const std::string name = Create(SweepJob())->name();
    EXPECT_TRUE(Eventually([&] { return Get(name).state() == v1::Job::SUCCEEDED; }))
        << Get(name).ShortDebugString();
    return name;
  }

  std::vector<v1::ArtifactChunk> Download(const v1::DownloadArtifactRequest& request,
                                          absl::Status* status) {
    Call call;
    auto reader = results_->DownloadArtifact(&call.context, request);
    std::vector<v1::ArtifactChunk> chunks;
    v1::ArtifactChunk chunk;
    while (reader->Read(&chunk)) chunks.push_back(chunk);
    *status = Checked(reader->Finish());
    return chunks;
  }

  std::unique_ptr<ScriptedWorker> worker_;
};

TEST_F(ResultsTest, ASweepCanBeReadInEveryWay) {
  const std::string name = FinishedSweep();

  v1::GetHeadScoresRequest scores;
  scores.set_job(name);
  scores.set_score("output_norm_ln");
  scores.set_threshold(1);
  v1::HeadScores heads;
  ASSERT_TRUE(Unary(*results_, &Results::GetHeadScores, scores, &heads).ok());
  EXPECT_EQ(heads.layers(), 2);
  EXPECT_EQ(heads.heads(), 3);
  EXPECT_EQ(heads.kv_heads(), 3);  // from the catalogue
  EXPECT_EQ(heads.samples(), 24);
  EXPECT_EQ(heads.mean_size(), 6);
  EXPECT_TRUE(heads.complete());

  v1::QueryThresholdsRequest thresholds;
  thresholds.set_job(name);
  thresholds.add_fractions(.5);
  v1::QueryThresholdsResponse tables;
  ASSERT_TRUE(Unary(*results_, &Results::QueryThresholds, thresholds, &tables).ok());
  EXPECT_GE(tables.tables_size(), 1);

  v1::GetCurvesRequest curves_request;
  curves_request.set_job(name);
  v1::Curves curves;
  ASSERT_TRUE(Unary(*results_, &Results::GetCurves, curves_request, &curves).ok());
  EXPECT_EQ(curves.curves_size(), 2);
  EXPECT_TRUE(curves.complete());
  EXPECT_EQ(curves.documents(), 12);

  Call call;
  v1::ListSamplesRequest samples;
  samples.set_job(name);
  auto reader = results_->ListSamples(&call.context, samples);
  int records = 0;
  std::pair<int, std::string> last = {-2, ""};
  v1::SampleRecord record;
  while (reader->Read(&record)) {
    EXPECT_GE(record.rule(), last.first);
    last = {record.rule(), record.sample()};
    ++records;
  }
  EXPECT_TRUE(Checked(reader->Finish()).ok());
  EXPECT_EQ(records, 24 * 5);  // the baseline and 2 x 2 rules
}

TEST_F(ResultsTest, EveryArtifactCanBeTakenUpAtAnyOffset) {
  const std::string name = FinishedSweep();
  for (const char* artifact : {"scores.npy", "samples.parquet", "curves.parquet", "job.json"}) {
    v1::DownloadArtifactRequest request;
    request.set_job(name);
    request.set_artifact(artifact);
    if (std::string(artifact) == "scores.npy") request.set_score("output_norm_ln");
    absl::Status status;
    std::string whole;
    for (const v1::ArtifactChunk& chunk : Download(request, &status)) {
      EXPECT_EQ(chunk.offset(), static_cast<int64_t>(whole.size()));
      EXPECT_EQ(chunk.crc32c(), Crc32c(chunk.data()));
      EXPECT_LE(chunk.data().size(), size_t{1} << 20);
      whole += chunk.data();
    }
    ASSERT_TRUE(status.ok()) << artifact << " " << status;
    ASSERT_GT(whole.size(), 10u) << artifact;
    for (const size_t offset : {size_t{1}, whole.size() / 2, whole.size() - 1, whole.size()}) {
      request.set_offset(static_cast<int64_t>(offset));
      std::string rest;
      int64_t total = 0;
      for (const v1::ArtifactChunk& chunk : Download(request, &status)) {
        rest += chunk.data();
        total = chunk.total_bytes();
      }
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(rest, whole.substr(offset)) << artifact;
      EXPECT_EQ(total, static_cast<int64_t>(whole.size()));
    }
    request.set_offset(static_cast<int64_t>(whole.size()) + 1);
    Download(request, &status);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    request.set_offset(-1);
    Download(request, &status);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), "offset");
  }
}

TEST_F(ResultsTest, WhatIsAskedForWronglyIsSaid) {
  const std::string name = FinishedSweep();
  absl::Status status;
  for (const char* artifact : {"", "secrets.txt", "../job.json", "/etc/passwd"}) {
    v1::DownloadArtifactRequest request;
    request.set_job(name);
    request.set_artifact(artifact);
    Download(request, &status);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << artifact;
  }
  const auto heads = [&](const std::string& text) {
    auto request = Parse<v1::GetHeadScoresRequest>(text);
    request.set_job(name);
    v1::HeadScores response;
    return Unary(*results_, &Results::GetHeadScores, request, &response);
  };
  for (const char* request :
       {"", "score: \"none\"", "score: \"random\"", "score: \"entropy\" quantiles: 1.5",
        "score: \"entropy\" quantiles: nan", "score: \"entropy\" threshold: nan"}) {
    EXPECT_EQ(heads(request).code(), absl::StatusCode::kInvalidArgument) << request;
  }
  v1::QueryThresholdsResponse tables;
  for (const char* text :
       {"fractions: -0.5", "fractions: nan", "values: nan", "scores: \"none\""}) {
    auto request = Parse<v1::QueryThresholdsRequest>(text);
    request.set_job(name);
    EXPECT_EQ(Unary(*results_, &Results::QueryThresholds, request, &tables).code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  v1::Curves curves;
  auto margin = Parse<v1::GetCurvesRequest>("margin_points: -1");
  margin.set_job(name);
  EXPECT_EQ(Unary(*results_, &Results::GetCurves, margin, &curves).code(),
            absl::StatusCode::kInvalidArgument);
  for (const auto& [text, code] :
       {std::pair{"rules: 99", absl::StatusCode::kOutOfRange},
        std::pair{"first_sample: -1", absl::StatusCode::kInvalidArgument},
        std::pair{"with_text: true", absl::StatusCode::kUnimplemented}}) {
    Call call;
    auto request = Parse<v1::ListSamplesRequest>(text);
    request.set_job(name);
    auto reader = results_->ListSamples(&call.context, request);
    v1::SampleRecord record;
    while (reader->Read(&record)) continue;
    EXPECT_EQ(Checked(reader->Finish()).code(), code) << text;
  }
}

TEST_F(ResultsTest, BeforeAnythingIsStoredResultsAreNotReady) {
  const std::string name = Create(SweepJob())->name();
  v1::GetHeadScoresRequest request;
  request.set_job(name);
  request.set_score("entropy");
  v1::HeadScores heads;
  const absl::Status status = Unary(*results_, &Results::GetHeadScores, request, &heads);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "RESULTS_NOT_READY");
}

TEST_F(ResultsTest, AClientThatBreaksOffADownloadHarmsNobody) {
  const std::string name = FinishedSweep();
  for (int i = 0; i < 20; ++i) {
    Call call;
    v1::ListSamplesRequest request;
    request.set_job(name);
    auto reader = results_->ListSamples(&call.context, request);
    v1::SampleRecord record;
    reader->Read(&record);
    call.context.TryCancel();
    EXPECT_EQ(Checked(reader->Finish()).code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(Get(name).state(), v1::Job::SUCCEEDED);
}

}  // namespace
}  // namespace headcount::server
