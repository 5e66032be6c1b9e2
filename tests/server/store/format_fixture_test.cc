// What earlier versions wrote can be read: the database and chunks of tests/golden/format-v1 are
// copied, opened (and so migrated), and read. The expected values were written down when the files
// were made (make_fixtures.cc) and never change.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/base/digest.h"
#include "common/format/frame.h"
#include "server/store/artifact_store.h"
#include "server/store/sqlite_job_store.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::store {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr char kFixtures[] = "tests/golden/format-v1";  // tests run in the repository's root
constexpr char kSweep[] = "projects/default/jobs/sweep";
constexpr char kRunning[] = "projects/default/jobs/running";

float FloatAt(const std::string& bytes, size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

class FormatV1 : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(kFixtures, folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    auto jobs = SqliteJobStore::Open(folder_.File("jobs.db"), clock_);
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
    auto chunks = ArtifactStore::OpenFolder(folder_.File("chunks"));
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    chunks_ = *std::move(chunks);
  }

  template <class Message>
  Message ReadChunk(Stage stage, int64_t unit, format::FrameKind kind) {
    Message message;
    auto found = jobs_->ListChunks(kSweep, stage, unit, 1);
    EXPECT_TRUE(found.ok() && found->size() == 1) << found.status();
    if (!found.ok() || found->empty()) return message;
    auto bytes = chunks_->Get(found->front().digest);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(found->front().bytes, static_cast<int64_t>(bytes->size()));
    EXPECT_EQ(format::Unframe(kind, *bytes, &message), absl::OkStatus());
    return message;
  }

  TempFolder folder_;
  FakeClock clock_;
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<ArtifactStore> chunks_;
};

TEST_F(FormatV1, JobsAreAsTheyWere) {
  auto page = jobs_->ListJobs({"default"}, "", 10);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_THAT(page->jobs, SizeIs(4));
  EXPECT_EQ(page->jobs[0].name(), "projects/default/jobs/queued");
  EXPECT_EQ(page->jobs[0].state(), v1::Job::QUEUED);
  const v1::Job& failed = page->jobs[1];
  EXPECT_EQ(failed.state(), v1::Job::FAILED);
  EXPECT_EQ(failed.state_reason(), "POISON_TASK");
  EXPECT_EQ(failed.error().code(), 13);
  EXPECT_EQ(failed.error().message(), "unit 0 of prepare killed 3 workers");
  EXPECT_EQ(failed.ablate().rules(0).random().p(), .5);
  const v1::Job& running = page->jobs[2];
  EXPECT_EQ(running.name(), kRunning);
  EXPECT_EQ(running.state(), v1::Job::STARTING);
  EXPECT_EQ(running.attempt(), 2);
  EXPECT_EQ(running.failures(), 1);
  EXPECT_EQ(running.progress().done_units(), 1);
  const v1::Job& sweep = page->jobs[3];
  EXPECT_EQ(sweep.name(), kSweep);
  EXPECT_EQ(sweep.uid(), "uid-sweep");
  EXPECT_EQ(sweep.owner(), "ann");
  EXPECT_EQ(sweep.labels().at("team"), "interp");
  EXPECT_EQ(sweep.priority(), 3);
  EXPECT_EQ(sweep.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(sweep.attempt(), 3);
  EXPECT_EQ(sweep.create_time().seconds(), 1'760'000'000);
  EXPECT_EQ(sweep.end_time().seconds(), 1'760'000'005);
  EXPECT_EQ(sweep.sweep().workload().task().task(), "piqa");
  EXPECT_EQ(sweep.sweep().workload().task().limit(), 2);
  EXPECT_THAT(sweep.sweep().scores(), ElementsAre("output_norm_ln"));
  EXPECT_THAT(sweep.sweep().fractions(), ElementsAre(.25));
  EXPECT_EQ(sweep.sweep().random_seed(), 1234u);
  EXPECT_EQ(sweep.provenance().dtype(), "float32");
  EXPECT_EQ(sweep.progress().done_units(), 5);
  EXPECT_EQ(sweep.progress().total_rows(), 12);
}

TEST_F(FormatV1, EventsAreAllThereInOrder) {
  auto events = jobs_->ReadEvents(kSweep, 0, 100);
  ASSERT_TRUE(events.ok()) << events.status();
  std::vector<v1::JobEvent::EventCase> kinds;
  for (size_t i = 0; i < events->size(); ++i) {
    EXPECT_EQ((*events)[i].sequence(), static_cast<int64_t>(i) + 1);
    kinds.push_back((*events)[i].event_case());
  }
  using Event = v1::JobEvent;
  EXPECT_THAT(kinds, ElementsAre(Event::kStateChanged, Event::kStagePlanned, Event::kStateChanged,
                                 Event::kUnitStored, Event::kStateChanged, Event::kStagePlanned,
                                 Event::kUnitStored, Event::kUnitStored, Event::kStagePlanned,
                                 Event::kUnitStored, Event::kUnitStored, Event::kCurvePoint,
                                 Event::kStateChanged));
  EXPECT_EQ((*events)[8].stage_planned().stage(), "ablate");
  EXPECT_EQ((*events)[8].stage_planned().rules(), 2);
  EXPECT_EQ((*events)[11].curve_point().accuracy(), .5);
  EXPECT_TRUE((*events)[11].curve_point().final());
  EXPECT_EQ((*events)[12].time().seconds(), 1'760'000'005);
  events = jobs_->ReadEvents(kRunning, 3, 1);
  ASSERT_THAT(*events, SizeIs(1));
  EXPECT_EQ(events->front().task_lost().cause(), "WORKER_DIED");
  EXPECT_EQ(events->front().task_lost().worker(), "worker-1");
}

TEST_F(FormatV1, StagesAndPlansAreAsTheyWere) {
  auto stages = jobs_->ListStages(kSweep);
  ASSERT_TRUE(stages.ok()) << stages.status();
  ASSERT_THAT(*stages, SizeIs(3));
  const StageRecord& ablate = (*stages)[2];
  EXPECT_EQ(ablate.stage, Stage::kAblate);
  EXPECT_EQ(ablate.units, 2);
  EXPECT_EQ(ablate.done_units, 2);
  EXPECT_EQ(ablate.done_rows, 8);
  EXPECT_EQ(ablate.plan.rules_per_unit(), 1);
  EXPECT_EQ(ablate.plan.documents(), 2);
  ASSERT_EQ(ablate.plan.rules_size(), 2);
  EXPECT_EQ(ablate.plan.rules(0).label(), "output_norm_ln");
  EXPECT_EQ(ablate.plan.rules(0).nominal_fraction(), .25);
  EXPECT_EQ(ablate.plan.rules(0).threshold().value(), .375f);
  EXPECT_EQ(ablate.plan.rules(1).index(), 1);
  EXPECT_TRUE(std::isnan(ablate.plan.rules(1).nominal_fraction()));
  EXPECT_EQ(ablate.plan.rules(1).fixed_heads().heads(0).layer(), 1);
  EXPECT_THAT(ablate.plan.rules(1).layers(), ElementsAre(1));
  EXPECT_EQ((*stages)[1].plan.sample_blocks(1).first_sample(), 2);
  EXPECT_EQ((*stages)[1].plan.sample_blocks(1).documents(), 1);
  EXPECT_EQ(*jobs_->FindManifestKey("prepare-key"), ablate.manifest_digest);
  auto chunk = jobs_->ListChunks(kSweep, Stage::kAblate, 1, 1);
  EXPECT_EQ(chunk->front().counts.rows(), 4);
  EXPECT_EQ(chunk->front().counts.rules(0).rule(), 1);
  EXPECT_EQ(chunk->front().counts.rules(0).share_sum(), .5);
}

TEST_F(FormatV1, TheManifestReads) {
  const auto manifest = ReadChunk<v1::Manifest>(Stage::kPrepare, 0, format::FrameKind::kManifest);
  EXPECT_EQ(manifest.task(), "piqa");
  EXPECT_EQ(manifest.model(), "tiny");
  ASSERT_EQ(manifest.documents_size(), 2);
  EXPECT_EQ(manifest.documents(1).id(), "piqa/1");
  EXPECT_EQ(manifest.documents(1).gold(), 1);
  EXPECT_THAT(manifest.documents(1).choice_lengths(), ElementsAre(5, 7));
  EXPECT_THAT(manifest.groups(1).prefix(), ElementsAre(1, 101));
  ASSERT_EQ(manifest.samples_size(), 4);
  const v1::ManifestSample& sample = manifest.samples(3);
  EXPECT_EQ(sample.id(), "piqa/1/1");
  EXPECT_EQ(sample.document(), 1);
  EXPECT_EQ(sample.request(), 1);
  EXPECT_EQ(sample.group(), 1);
  EXPECT_THAT(sample.suffix(), ElementsAre(201));
  EXPECT_THAT(sample.targets(), ElementsAre(301, 302));
  EXPECT_EQ(sample.scored(), 2);
  EXPECT_THAT(sample.choices(), ElementsAre(1));
  EXPECT_EQ(sample.digest().size(), 32u);
  EXPECT_EQ(manifest.first_token(), "<s>");
  EXPECT_TRUE(manifest.first_token_is_bos());
  EXPECT_THAT(manifest.metrics(), ElementsAre("acc", "acc_norm"));
  EXPECT_EQ(manifest.longest_sample(), 4);
}

TEST_F(FormatV1, ScoreChunksRead) {
  const auto chunk = ReadChunk<v1::ScoreChunk>(Stage::kScore, 1, format::FrameKind::kScoreChunk);
  EXPECT_EQ(chunk.first_sample(), 2);
  EXPECT_EQ(chunk.samples(), 2);
  EXPECT_EQ(chunk.layers(), 2);
  EXPECT_EQ(chunk.heads(), 2);
  EXPECT_EQ(chunk.head_dim(), 2);
  ASSERT_EQ(chunk.slabs_size(), 2);
  EXPECT_EQ(chunk.slabs(0).measurement(), "first_weight");
  EXPECT_EQ(chunk.slabs(1).measurement(), "entropy");
  ASSERT_EQ(chunk.slabs(1).values().size(), 32u);
  EXPECT_EQ(FloatAt(chunk.slabs(1).values(), 0), 1.f);
  EXPECT_EQ(FloatAt(chunk.slabs(1).values(), 7), 1.875f);
  EXPECT_THAT(chunk.results(1).log_likelihoods(), ElementsAre(-2.5f));
  EXPECT_THAT(chunk.results(0).greedy(), ElementsAre(true));
  EXPECT_EQ(FloatAt(chunk.head_sums().rest(), 7), 2.5f);
  EXPECT_EQ(chunk.head_sums().rest_count(), 6);
  EXPECT_EQ(FloatAt(chunk.head_sums().first(), 0), -.5f);
  EXPECT_EQ(chunk.head_sums().first_count(), 2);
  EXPECT_EQ(chunk.run().numerics_version(), 1);
  EXPECT_EQ(chunk.run().dtype(), "float32");
  EXPECT_EQ(chunk.run().device_kind(), "cpu");
  EXPECT_EQ(chunk.run().threads(), 2);
  EXPECT_EQ(chunk.run().tokens(), 16);
}

TEST_F(FormatV1, AblateChunksRead) {
  const auto chunk = ReadChunk<v1::AblateChunk>(Stage::kAblate, 1, format::FrameKind::kAblateChunk);
  EXPECT_EQ(chunk.first_sample(), 0);
  EXPECT_EQ(chunk.samples(), 4);
  EXPECT_EQ(chunk.first_rule(), 1);
  EXPECT_EQ(chunk.rules(), 1);
  ASSERT_EQ(chunk.results_size(), 4);
  EXPECT_THAT(chunk.results(3).log_likelihoods(), ElementsAre(-5.f));
  EXPECT_EQ(chunk.results(3).mask(), std::string("\x08"));
  EXPECT_TRUE(chunk.results(3).non_finite());
  EXPECT_EQ(chunk.results(3).non_finite_layer(), 1);
  EXPECT_EQ(chunk.results(3).non_finite_head(), 1);
  EXPECT_FALSE(chunk.results(2).non_finite());
  EXPECT_EQ(chunk.zeroed(), std::string("\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0", 16));
}

// Not only readable: the server that was killed on that database goes on where it was.
TEST_F(FormatV1, WorkGoesOn) {
  auto leases = jobs_->ListLeases(kRunning);
  ASSERT_TRUE(leases.ok()) << leases.status();
  ASSERT_THAT(*leases, SizeIs(1));
  const Lease& lease = leases->front();
  EXPECT_EQ(lease.worker, "worker-1");
  EXPECT_EQ(lease.stored_units, 1);
  EXPECT_EQ(lease.expires, clock_.Monotonic() + std::chrono::seconds(30));
  auto stored = jobs_->StoreChunk(lease.task, lease.attempt, 1, "digest", 1, {});
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(stored->stage_complete);
  EXPECT_EQ(jobs_->GetJob(kRunning)->failures(), 0);
  EXPECT_DOUBLE_EQ(jobs_->View()->usage.at("ann"), 12.5);
  EXPECT_THAT(*jobs_->OpenJobs(), ElementsAre(kRunning, "projects/default/jobs/queued"));
  NewJob again;
  again.job.set_name("projects/default/jobs/new");
  again.job.set_owner("ann");
  again.request_id = "request-sweep";
  again.body_digest = "body-sweep";
  EXPECT_EQ(jobs_->CreateJob(again, 10)->job.name(), kSweep);
  again.job.set_owner("bob");
  again.request_id = "request-deleted";
  again.body_digest = "body-deleted";
  EXPECT_TRUE(absl::IsNotFound(jobs_->CreateJob(again, 10).status()));
}

}  // namespace
}  // namespace headcount::store
