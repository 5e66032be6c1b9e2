// What a probe's plan records is there in every chunk that is kept, and of the right size. The
// other checks are tested where a worker reports (report_sink_test.cc).

#include "server/queue/chunk_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/base/errors.h"
#include "tests/server/plan/manifests.h"
#include "tests/server/queue/fake_chunks.h"

namespace headcount::queue {
namespace {

using ::testing::HasSubstr;

class RecordedChunk : public ::testing::Test {
 protected:
  RecordedChunk() {
    model_.layers = plan::FakeCatalog::kLayers;
    model_.heads = plan::FakeCatalog::kHeads;
    model_.head_dim = plan::FakeCatalog::kHeadDim;
    plan_.add_rules()->set_none(true);
    plan_.add_rules()->mutable_random()->set_p(.5);
    plan_.mutable_rules(1)->set_index(1);
    v1::RowRecord& record = *plan_.mutable_record();
    record.set_measurements(true);
    record.set_first_weights(true);
    record.set_next_tokens(1);
    range_.set_samples(2);
    range_.set_rules(2);
    chunk_ = FakeAblateChunk(manifest_, range_, {plan_.rules(0), plan_.rules(1)});
    const int heads = model_.layers * model_.heads;
    for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
      v1::Slab* slab = chunk_.add_slabs();
      slab->set_measurement(std::string(info.id));
      slab->set_values(std::string(static_cast<size_t>(4 * heads * 4), '\0'));
    }
    for (int row = 0; row < 4; ++row) {
      v1::SampleResult& result = *chunk_.mutable_results(row);
      result.mutable_next_tokens()->add_tokens(7);
      result.mutable_next_tokens()->add_texts("seven");
      result.mutable_next_tokens()->add_log_likelihoods(-1);
      if (row >= 2) continue;
      for (const char* text : {"a", "b", "c"}) result.add_input_texts(text);
      result.set_first_weights(std::string(static_cast<size_t>(heads * 3 * 4), '\0'));
    }
  }

  absl::Status Check(const std::function<void(v1::AblateChunk*)>& change) {
    v1::AblateChunk chunk = chunk_;
    change(&chunk);
    return CheckAblateChunk(format::Frame(format::FrameKind::kAblateChunk, chunk), range_, plan_,
                            model_, manifest_)
        .status();
  }

  void ExpectRefused(const std::function<void(v1::AblateChunk*)>& change, const char* text) {
    const absl::Status status = Check(change);
    EXPECT_EQ(ReasonOf(status), "BAD_CHUNK") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const v1::Manifest manifest_ = plan::Pairs(3);
  catalog::ModelConfig model_;
  v1::StagePlan plan_;
  v1::UnitRange range_;
  v1::AblateChunk chunk_;
};

TEST_F(RecordedChunk, IsKeptWhole) {
  EXPECT_TRUE(Check([](v1::AblateChunk*) {}).ok()) << Check([](v1::AblateChunk*) {});
  ExpectRefused([](v1::AblateChunk* c) { c->clear_slabs(); }, "is missing");
  ExpectRefused([](v1::AblateChunk* c) { c->mutable_slabs(0)->mutable_values()->resize(48); },
                "bytes: must be 96");
  ExpectRefused([](v1::AblateChunk* c) { c->mutable_results(1)->clear_first_weights(); },
                "first_weights bytes: must be 72");
  ExpectRefused([](v1::AblateChunk* c) { c->mutable_results(0)->add_input_texts("d"); },
                "input_texts: must be 3");
  ExpectRefused(
      [](v1::AblateChunk* c) { c->mutable_results(3)->mutable_next_tokens()->add_tokens(8); },
      "next_tokens.log_likelihoods: must be 2");
}

TEST_F(RecordedChunk, IsNotAskedOfOtherPlans) {
  plan_.clear_record();
  EXPECT_TRUE(Check([](v1::AblateChunk* c) {
                c->clear_slabs();
                for (v1::SampleResult& row : *c->mutable_results()) {
                  row.clear_first_weights();
                  row.clear_next_tokens();
                  row.clear_input_texts();
                }
              }).ok());
}

}  // namespace
}  // namespace headcount::queue
