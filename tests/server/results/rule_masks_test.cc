// What later jobs take from a finished one: masks of a rule by sample, their share and counts, and
// mean head outputs over all units.

#include "server/results/rule_masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "common/base/errors.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

using ::testing::ElementsAre;

TEST(RuleMasks, AreThoseOfTheRowsInTheManifestsOrder) {
  const auto job = SampleJobMaker::Ablate();
  const auto masks = ReadRuleMasks(job->store, job->store.artifacts(), FakeJob::kName, 1);
  ASSERT_TRUE(masks.ok()) << masks.status();
  const std::vector<v1::SampleResult> rows = job->RowsOf(2);  // behind the baseline
  ASSERT_EQ(masks->masks.size(), rows.size());
  std::vector<int64_t> changed(kLayers * kHeads);
  double share = 0;  // by documents: those of two samples count as one of one sample does
  std::vector<int> samples_of(static_cast<size_t>(job->manifest.documents_size()));
  for (const v1::ManifestSample& sample : job->manifest.samples()) {
    ++samples_of[static_cast<size_t>(sample.document())];
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(masks->masks[i], rows[i].mask());
    int heads = 0;
    for (size_t bit = 0; bit < changed.size(); ++bit) {
      const int lost = static_cast<unsigned char>(rows[i].mask()[bit / 8]) >> (bit % 8) & 1;
      changed[bit] += lost;
      heads += lost;
    }
    const auto document =
        static_cast<size_t>(job->manifest.samples(static_cast<int>(i)).document());
    share += heads / double{kLayers * kHeads} / samples_of[document];
  }
  EXPECT_EQ(masks->changed, changed);
  EXPECT_NEAR(masks->share, share / job->manifest.documents_size(), 1e-12);
  EXPECT_EQ(masks->label, "fixed");
  EXPECT_EQ(masks->layers, kLayers);
  EXPECT_EQ(masks->heads, kHeads);
}

TEST(RuleMasks, AStageThatHasGrownHasTheSame) {
  const auto grid = SampleJobMaker::Sweep();
  const auto grown = SampleJobMaker::GrownSweep();
  for (int rule = 0; rule < 6; ++rule) {
    const auto expected = ReadRuleMasks(grid->store, grid->store.artifacts(), FakeJob::kName, rule);
    const auto masks = ReadRuleMasks(grown->store, grown->store.artifacts(), FakeJob::kName, rule);
    ASSERT_TRUE(masks.ok()) << masks.status();
    EXPECT_EQ(masks->masks, expected->masks);
    EXPECT_EQ(masks->label, expected->label);
  }
}

TEST(RuleMasks, ARuleThatIsNotThereIsNamedWithThoseThatAre) {
  const auto job = SampleJobMaker::Ablate();
  for (int rule : {-1, 2}) {
    const absl::Status status =
        ReadRuleMasks(job->store, job->store.artifacts(), FakeJob::kName, rule).status();
    EXPECT_EQ(FieldOf(status), "rule") << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("rules 0 to 1"));
  }
}

std::string Floats(std::initializer_list<float> values) {
  return std::string(reinterpret_cast<const char*>(std::data(values)),
                     values.size() * sizeof(float));
}

std::vector<float> Numbers(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(HeadMeans, AreSumsOverAllUnitsByTheirCounts) {
  const auto job = SampleJobMaker::Sweep();
  const auto read = [&] {
    return ReadHeadMeans(job->store, job->store.artifacts(), FakeJob::kName);
  };
  EXPECT_EQ(ReasonOf(read().status()), "NO_HEAD_SUMS");
  for (size_t unit = 0; unit < job->score_chunks.size(); ++unit) {
    v1::ScoreChunk chunk = job->score_chunks[unit];
    v1::HeadSumSlab* sums = chunk.mutable_head_sums();
    if (unit != 1) {  // of unit 1 no sample was finite
      const float x = unit == 0 ? 10.0f : 1.0f;
      sums->set_rest(Floats({x, 2 * x}));
      sums->set_first(Floats({-x, 0}));
      sums->set_rest_count(4);
      sums->set_first_count(2);
    }
    job->store.Store(static_cast<int64_t>(unit), chunk);
  }
  const auto means = read();
  ASSERT_TRUE(means.ok()) << means.status();
  const auto units = static_cast<float>(job->score_chunks.size() - 1);
  const float sum = 10 + (units - 1);
  EXPECT_EQ(means->job(), FakeJob::kName);
  EXPECT_THAT(Numbers(means->rest()), ElementsAre(sum / (4 * units), 2 * sum / (4 * units)));
  EXPECT_THAT(Numbers(means->first()), ElementsAre(-sum / (2 * units), 0));
}

}  // namespace
}  // namespace headcount::results
