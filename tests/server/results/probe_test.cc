// Probes: each prompt's answer holds what was recorded of it and nothing of the next one's.

#include "server/results/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "common/catalog/scores.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class ProbeTest : public ::testing::Test {
 protected:
  v1::GetProbeRequest Request(int64_t sample) {
    v1::GetProbeRequest request;
    request.set_job(FakeJob::kName);
    request.set_sample(sample);
    return request;
  }

  absl::StatusOr<v1::Probe> Get(const v1::GetProbeRequest& request) {
    return GetProbe(made_->store, made_->store.artifacts(), request);
  }

  void ExpectRefused(const v1::GetProbeRequest& request, absl::StatusCode code,
                     const std::string& text) {
    const absl::Status status = Get(request).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::unique_ptr<SampleJob> made_ = SampleJobMaker::Probe();
};

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST_F(ProbeTest, HoldsWhatWasRecordedOfEveryPrompt) {
  int64_t sample = 0;
  for (const v1::AblateChunk& chunk : made_->ablate_chunks) {
    for (int place = 0; place < chunk.samples(); ++place, ++sample) {
      SCOPED_TRACE(sample);
      const auto answer = Get(Request(sample));
      ASSERT_TRUE(answer.ok()) << answer.status();
      const v1::ManifestSample& prompt = made_->manifest.samples(static_cast<int>(sample));
      EXPECT_EQ(answer->sample(), prompt.id());
      EXPECT_EQ(answer->samples(), made_->manifest.samples_size());
      std::vector<int> tokens = {0, 1, 2};
      tokens.insert(tokens.end(), prompt.suffix().begin(), prompt.suffix().end());
      EXPECT_THAT(answer->tokens(), ElementsAreArray(tokens));
      EXPECT_EQ(answer->token_texts_size(), answer->tokens_size());
      ASSERT_EQ(answer->runs_size(), 2);
      EXPECT_EQ(answer->runs(0).label(), "baseline");
      EXPECT_EQ(answer->runs(0).rule(), -1);
      EXPECT_EQ(answer->runs(1).rule(), 0);
      for (int r = 0; r < 2; ++r) {
        const int row = r * chunk.samples() + place;
        const v1::SampleResult& stored = chunk.results(row);
        const v1::ProbeRun& run = answer->runs(r);
        EXPECT_EQ(run.mask(), stored.mask());
        EXPECT_EQ(run.next_token_entropy(), row + .5);
        EXPECT_EQ(run.divergence(), row + .25);
        EXPECT_TRUE(run.finite());
        EXPECT_THAT(run.log_likelihoods(), ElementsAreArray(stored.log_likelihoods()));
        ASSERT_EQ(run.next_tokens_size(), 2);
        EXPECT_EQ(run.next_tokens(1).token(), 8 + row);
        EXPECT_EQ(run.next_tokens(1).text(), "<" + std::to_string(8 + row) + ">");
        EXPECT_EQ(run.next_tokens(1).log_likelihood(), stored.next_tokens().log_likelihoods(1));
        // first_token_weight is a measurement as it is.
        ASSERT_EQ(run.scores_size(), static_cast<int>(catalog::Scores().size()) - 1);
        for (const v1::ProbeScore& score : run.scores()) {
          if (score.score() != "first_token_weight") continue;
          for (const v1::Slab& slab : chunk.slabs()) {
            if (slab.measurement() != "first_weight") continue;
            const std::vector<float> all = Floats(slab.values());
            const auto begin = all.begin() + row * kLayers * kHeads;
            EXPECT_THAT(score.values(), ElementsAreArray(begin, begin + kLayers * kHeads));
          }
          EXPECT_EQ(score.inactive_side(), ">");
        }
      }
    }
  }
  EXPECT_EQ(sample, made_->manifest.samples_size());
}

TEST_F(ProbeTest, FirstWeightsOfTheLayersAskedForAndTheirMeans) {
  v1::GetProbeRequest request = Request(1);
  request.add_layers(2);
  request.add_layers(0);
  request.add_scores("entropy");
  const v1::Probe answer = Get(request).value();
  const std::vector<float> stored = Floats(made_->ablate_chunks[0].results(1).first_weights());
  const auto positions = static_cast<size_t>(answer.tokens_size());
  const size_t layer = kHeads * positions;
  std::vector<float> expected(stored.begin() + static_cast<std::ptrdiff_t>(2 * layer),
                              stored.begin() + static_cast<std::ptrdiff_t>(3 * layer));
  expected.insert(expected.end(), stored.begin(),
                  stored.begin() + static_cast<std::ptrdiff_t>(layer));
  EXPECT_THAT(answer.first_weights(), ElementsAreArray(expected));
  ASSERT_EQ(answer.mean_first_weights_size(), static_cast<int>(kLayers * positions));
  double sum = 0;
  for (size_t head = 0; head < kHeads; ++head) sum += stored[layer + head * positions + 1];
  EXPECT_NEAR(answer.mean_first_weights(static_cast<int>(positions) + 1), sum / kHeads, 1e-6);
  ASSERT_EQ(answer.runs(0).scores_size(), 1);
  EXPECT_EQ(answer.runs(0).scores(0).score(), "entropy");
  EXPECT_TRUE(Get(Request(1)).value().first_weights().empty()) << "only where asked for";
}

TEST_F(ProbeTest, ScoresOfTheJobsOwn) {
  v1::UserScore* own = made_->store.job().mutable_probe()->add_user_scores();
  own->set_name("twice");
  own->set_expression("entropy * 2");
  own->set_inactive(v1::UserScore::BELOW);
  v1::GetProbeRequest request = Request(0);
  request.add_scores("twice");
  request.add_scores("entropy");
  const v1::Probe answer = Get(request).value();
  const v1::ProbeRun& run = answer.runs(1);
  ASSERT_EQ(run.scores_size(), 2);
  for (int head = 0; head < kLayers * kHeads; ++head) {
    EXPECT_FLOAT_EQ(run.scores(0).values(head), 2 * run.scores(1).values(head));
  }
}

TEST_F(ProbeTest, RefusesWhatIsNotThere) {
  const int samples = made_->manifest.samples_size();
  ExpectRefused(
      Request(samples), absl::StatusCode::kOutOfRange,
      "the job has " + std::to_string(samples) + " samples (got " + std::to_string(samples) + ")");
  ExpectRefused(Request(-1), absl::StatusCode::kOutOfRange, "(got -1)");
  v1::GetProbeRequest layer = Request(0);
  layer.add_layers(3);
  ExpectRefused(layer, absl::StatusCode::kOutOfRange, "the model has 3 layers (got 3)");
  v1::GetProbeRequest drawn = Request(0);
  drawn.add_scores("random");
  ExpectRefused(drawn, absl::StatusCode::kInvalidArgument, "is drawn, not measured");
  v1::GetProbeRequest unknown = Request(0);
  unknown.add_scores("entropi");
  ExpectRefused(unknown, absl::StatusCode::kInvalidArgument, "entropi");
  made_ = SampleJobMaker::Ablate();
  EXPECT_EQ(ReasonOf(Get(Request(0)).status()), "WRONG_KIND");
}

TEST_F(ProbeTest, IsNotReadyBeforeItsPromptHasBeenRun) {
  FakeJob& store = made_->store;
  FakeJob partial;
  partial.job() = store.job();
  partial.Plan(store::Stage::kAblate, made_->ablate_plan, made_->manifest);
  partial.Store(0, made_->ablate_chunks[0]);
  const auto get = [&](int64_t sample) {
    return GetProbe(partial, partial.artifacts(), Request(sample)).status();
  };
  EXPECT_TRUE(get(0).ok());
  EXPECT_EQ(ReasonOf(get(made_->manifest.samples_size() - 1)), "RESULTS_NOT_READY");
}

}  // namespace
}  // namespace headcount::results
