// The stream of sample records of made-up jobs against the rows they were stored from.

#include "server/results/samples.h"

#include <gtest/gtest.h>

#include <bit>

#include "common/base/errors.h"
#include "server/results/result_reader.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

v1::ListSamplesRequest Request(std::vector<int> rules = {}, int64_t first = 0, int64_t most = 0) {
  v1::ListSamplesRequest request;
  request.set_job(FakeJob::kName);
  request.mutable_rules()->Assign(rules.begin(), rules.end());
  request.set_first_sample(first);
  request.set_max_samples(most);
  return request;
}

std::vector<v1::SampleRecord> List(FakeJob& store, const v1::ListSamplesRequest& request) {
  std::vector<v1::SampleRecord> records;
  const auto stream = ResultReader(store, store.artifacts()).ListSamples(request);
  EXPECT_TRUE(stream.ok()) << stream.status();
  while (stream.ok()) {
    auto record = (*stream)->Next();
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok() || !record->has_value()) break;
    records.push_back(**std::move(record));
  }
  return records;
}

TEST(Samples, AStageThatHasGrownHasTheSame) {
  const auto grid = SampleJobMaker::Sweep();
  const auto grown = SampleJobMaker::GrownSweep();
  for (const auto& request : {Request(), Request({4, 2}, 7, 9)}) {
    const std::vector<v1::SampleRecord> expected = List(grid->store, request);
    const std::vector<v1::SampleRecord> records = List(grown->store, request);
    ASSERT_EQ(records.size(), expected.size());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].SerializeAsString(), expected[i].SerializeAsString()) << i;
    }
  }
}

TEST(Samples, EveryRowInOrder) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<v1::SampleRecord> records = List(job->store, Request());
  ASSERT_EQ(records.size(), 7 * 40);
  size_t at = 0;
  for (int rule = -1; rule < 6; ++rule) {
    const std::vector<v1::SampleResult> rows = job->RowsOf(rule);
    for (int s = 0; s < 40; ++s, ++at) {
      const v1::SampleRecord& record = records[at];
      const v1::SampleResult& row = rows[static_cast<size_t>(s)];
      const v1::ManifestSample& sample = job->manifest.samples(s);
      const v1::ManifestDocument& document =
          job->manifest.documents(static_cast<int>(sample.document()));
      EXPECT_EQ(record.rule(), rule);
      EXPECT_EQ(record.rule_label(), rule < 0 ? "baseline" : job->ablate_plan.rules(rule).label());
      EXPECT_EQ(record.sample(), sample.id());
      EXPECT_EQ(record.document(), document.id());
      EXPECT_EQ(record.gold(), document.gold());
      ASSERT_EQ(record.log_likelihoods_size(), sample.choices_size());
      EXPECT_EQ(record.log_likelihoods(0), row.log_likelihoods(0));
      EXPECT_EQ(record.greedy_size(), sample.choices_size());
      EXPECT_EQ(record.mask(), row.mask());
      EXPECT_EQ(record.correct(), record.prediction() == record.gold());
      EXPECT_EQ(record.correct_norm(), record.prediction_norm() == record.gold());
      EXPECT_EQ(record.tokens(), 3 + sample.suffix_size());
      EXPECT_TRUE(record.finite());
      int zeroed = 0;
      for (const char byte : row.mask()) zeroed += std::popcount(static_cast<unsigned char>(byte));
      EXPECT_DOUBLE_EQ(record.share_zeroed(), zeroed / 12.0);
      // Every sample of a document tells the document's prediction.
      if (s > 0 && records[at - 1].document() == record.document() &&
          records[at - 1].rule() == rule) {
        EXPECT_EQ(records[at - 1].prediction(), record.prediction());
        const bool second = record.log_likelihoods(0) > records[at - 1].log_likelihoods(0);
        EXPECT_EQ(record.prediction(), second ? 1 : 0);
      }
    }
  }
}

TEST(Samples, ARangeOfSomeRules) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<v1::SampleRecord> records = List(job->store, Request({3, -1, 3}, 7, 4));
  ASSERT_EQ(records.size(), 8);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(records[i].rule(), i < 4 ? -1 : 3);
    EXPECT_EQ(records[i].sample(), job->manifest.samples(7 + static_cast<int>(i) % 4).id());
  }
  EXPECT_EQ(List(job->store, Request({0}, 39, 1000)).size(), 1);
}

TEST(Samples, AnAblateJobsBaselineIsItsFirstRule) {
  const auto job = SampleJobMaker::Ablate();
  const std::vector<v1::SampleRecord> records = List(job->store, Request());
  ASSERT_EQ(records.size(), 3 * 40);
  for (int stage_rule = 0; stage_rule < 3; ++stage_rule) {
    const v1::SampleRecord& record = records[static_cast<size_t>(stage_rule) * 40];
    EXPECT_EQ(record.rule(), stage_rule - 1);
    EXPECT_EQ(record.log_likelihoods(0), job->RowsOf(stage_rule)[0].log_likelihoods(0));
  }
  EXPECT_EQ(records[0].rule_label(), "baseline");
  EXPECT_EQ(records[40].rule_label(), "output_norm_ln");
}

TEST(Samples, PassOverWhatIsNotStored) {
  const auto whole = SampleJobMaker::Sweep();
  FakeJob store;
  store.job().mutable_sweep();
  store.Plan(store::Stage::kScore, whole->score_plan, whole->manifest);
  const auto nothing = ResultReader(store, store.artifacts()).ListSamples(Request());
  EXPECT_EQ(ReasonOf(nothing.status()), "RESULTS_NOT_READY");
  store.Store(1, whole->score_chunks[1]);
  const std::vector<v1::SampleRecord> records = List(store, Request());
  ASSERT_EQ(records.size(), 8);
  EXPECT_EQ(records[0].sample(), whole->manifest.samples(8).id());
  const auto ablated = ResultReader(store, store.artifacts()).ListSamples(Request({0}));
  EXPECT_EQ(ReasonOf(ablated.status()), "RESULTS_NOT_READY");
}

TEST(Samples, Errors) {
  const auto job = SampleJobMaker::Sweep();
  const ResultReader reader(job->store, job->store.artifacts());
  const auto status = [&](const v1::ListSamplesRequest& request) {
    return reader.ListSamples(request).status();
  };
  EXPECT_EQ(status(Request({6})).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status(Request({-2})).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status(Request({}, 40)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(FieldOf(status(Request({}, -1))), "first_sample");
  EXPECT_EQ(FieldOf(status(Request({}, 0, -1))), "max_samples");
  v1::ListSamplesRequest with_text = Request();
  with_text.set_with_text(true);
  EXPECT_EQ(status(with_text).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace headcount::results
