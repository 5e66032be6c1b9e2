// Writes the files of tests/golden/format-v1: a small database and chunks in this build's formats.
//
//   make_fixtures FOLDER      (FOLDER must not have a jobs.db)
//
// Run once per format version, by hand: what lies in format-v1 was written by the first version and
// must never be written again, because it stands for what users have on their disks. A later format
// gets a folder of its own. format_fixture_test reads every such folder. Exit code 1 and a line on
// stderr when something fails.

#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/format/frame.h"
#include "server/store/artifact_store.h"
#include "server/store/sqlite_job_store.h"

namespace headcount::store {
namespace {

constexpr Clock::Duration kTerm = std::chrono::seconds(30);
constexpr int kSamples = 4, kDocuments = 2, kLayers = 2, kHeads = 2;

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Counts(const std::vector<uint32_t>& values) {
  std::string bytes(values.size() * sizeof(uint32_t), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

v1::Manifest MakeManifest() {
  v1::Manifest manifest;
  manifest.set_task("piqa");
  manifest.set_model("tiny");
  for (int d = 0; d < kDocuments; ++d) {
    v1::ManifestDocument& document = *manifest.add_documents();
    document.set_id(absl::StrCat("piqa/", d));
    document.set_subtask("piqa");
    document.set_gold(d % 2);
    document.add_choice_lengths(5);
    document.add_choice_lengths(7);
    v1::ManifestGroup& group = *manifest.add_groups();
    group.set_group(d);
    group.add_prefix(1);
    group.add_prefix(100 + d);
    for (int request = 0; request < 2; ++request) {
      v1::ManifestSample& sample = *manifest.add_samples();
      sample.set_id(absl::StrCat("piqa/", d, "/", request));
      sample.set_document(d);
      sample.set_request(request);
      sample.set_group(d);
      sample.add_suffix(200 + request);
      sample.add_targets(300 + request);
      sample.add_targets(301 + request);
      sample.set_scored(2);
      sample.add_choices(request);
      const auto digest = Sha256(sample.id());
      sample.set_digest(digest.data(), digest.size());
    }
  }
  manifest.set_tokenizer_digest("tokenizer-digest");
  manifest.set_requests_digest("requests-digest");
  manifest.set_first_token("<s>");
  manifest.set_first_token_is_bos(true);
  manifest.add_metrics("acc");
  manifest.add_metrics("acc_norm");
  manifest.set_longest_sample(4);
  return manifest;
}

void FillRun(v1::RunInfo* run) {
  run->set_numerics_version(1);
  run->set_dtype("float32");
  run->set_device_kind("cpu");
  run->set_threads(2);
  run->set_tokens(16);
}

v1::ScoreChunk MakeScoreChunk(int unit) {
  v1::ScoreChunk chunk;
  chunk.set_first_sample(2 * unit);
  chunk.set_samples(2);
  chunk.set_layers(kLayers);
  chunk.set_heads(kHeads);
  chunk.set_head_dim(2);
  for (const char* measurement : {"first_weight", "entropy"}) {
    v1::Slab& slab = *chunk.add_slabs();
    slab.set_measurement(measurement);
    std::vector<float> values;
    for (int i = 0; i < 2 * kLayers * kHeads; ++i)
      values.push_back(.125f * static_cast<float>(i + 8 * unit));
    slab.set_values(Floats(values));
  }
  for (int sample = 0; sample < 2; ++sample) {
    v1::SampleResult& result = *chunk.add_results();
    result.add_log_likelihoods(-1.5f - static_cast<float>(sample));
    result.add_greedy(sample == 0);
  }
  v1::HeadSumSlab& sums = *chunk.mutable_head_sums();
  sums.set_rest(Floats(std::vector<float>(kLayers * kHeads * 2, 2.5f)));
  sums.set_rest_count(6);
  sums.set_first(Floats(std::vector<float>(kLayers * kHeads * 2, -.5f)));
  sums.set_first_count(2);
  FillRun(chunk.mutable_run());
  return chunk;
}

v1::AblateChunk MakeAblateChunk(int unit) {
  v1::AblateChunk chunk;
  chunk.set_first_sample(0);
  chunk.set_samples(kSamples);
  chunk.set_first_rule(unit);
  chunk.set_rules(1);
  chunk.set_layers(kLayers);
  chunk.set_heads(kHeads);
  for (int sample = 0; sample < kSamples; ++sample) {
    v1::SampleResult& result = *chunk.add_results();
    result.add_log_likelihoods(-2.f - static_cast<float>(sample));
    result.add_greedy(false);
    result.set_mask(std::string(1, static_cast<char>(unit == 0 ? 0b0101 : 0b1000)));
    if (unit == 1 && sample == 3) {
      result.set_non_finite(true);
      result.set_non_finite_layer(1);
      result.set_non_finite_head(1);
    }
  }
  chunk.set_zeroed(
      Counts(unit == 0 ? std::vector<uint32_t>{4, 0, 4, 0} : std::vector<uint32_t>{0, 0, 0, 4}));
  FillRun(chunk.mutable_run());
  return chunk;
}

v1::StagePlan MakePlan(Stage stage) {
  v1::StagePlan plan;
  plan.set_documents(kDocuments);
  plan.set_samples_per_unit(stage == Stage::kScore ? 2 : 4);
  if (stage == Stage::kPrepare) return plan;
  for (int first = 0; first < kSamples; first += plan.samples_per_unit()) {
    v1::SampleBlock& block = *plan.add_sample_blocks();
    block.set_first_sample(first);
    block.set_samples(plan.samples_per_unit());
    block.set_documents(plan.samples_per_unit() / 2);
  }
  if (stage == Stage::kScore) return plan;
  plan.set_rules_per_unit(1);
  v1::ResolvedRule& by_score = *plan.add_rules();
  by_score.set_label("output_norm_ln");
  by_score.set_nominal_fraction(.25);
  by_score.mutable_threshold()->set_score("output_norm_ln");
  by_score.mutable_threshold()->set_value(.375f);
  v1::ResolvedRule& fixed = *plan.add_rules();
  fixed.set_index(1);
  fixed.set_label("fixed");
  fixed.set_nominal_fraction(std::numeric_limits<double>::quiet_NaN());
  v1::Head& head = *fixed.mutable_fixed_heads()->add_heads();
  head.set_layer(1);
  head.set_head(1);
  fixed.add_layers(1);
  return plan;
}

v1::UnitCounts MakeCounts(Stage stage, int unit) {
  v1::UnitCounts counts;
  counts.set_rows(stage == Stage::kPrepare ? 0 : stage == Stage::kScore ? 2 : kSamples);
  if (stage == Stage::kPrepare) return counts;
  v1::RuleCounts& rule = *counts.add_rules();
  rule.set_rule(stage == Stage::kScore ? -1 : unit);
  rule.set_documents(stage == Stage::kScore ? 1 : kDocuments);
  rule.set_correct(1);
  rule.set_share_sum(stage == Stage::kScore ? 0 : unit == 0 ? 1.0 : .5);
  return counts;
}

std::string MakeFrame(Stage stage, int unit) {
  switch (stage) {
    case Stage::kPrepare:
      return format::Frame(format::FrameKind::kManifest, MakeManifest());
    case Stage::kScore:
      return format::Frame(format::FrameKind::kScoreChunk, MakeScoreChunk(unit));
    case Stage::kAblate:
      break;
  }
  return format::Frame(format::FrameKind::kAblateChunk, MakeAblateChunk(unit));
}

NewJob Request(const std::string& id, const std::string& owner) {
  NewJob request;
  request.job.set_name("projects/default/jobs/" + id);
  request.job.set_uid("uid-" + id);
  request.job.set_owner(owner);
  request.request_id = "request-" + id;
  request.body_digest = "body-" + id;
  return request;
}

class Maker {
 public:
  Maker(JobStore& jobs, ArtifactStore& chunks, FakeClock& clock)
      : jobs_(jobs), chunks_(chunks), clock_(clock) {}

  absl::Status RunStage(const std::string& job, Stage stage, int64_t units,
                        const std::string& manifest) {
    StageRecord record{.job = job, .stage = stage, .plan = MakePlan(stage)};
    record.manifest_digest = manifest;
    record.units = units;
    record.rows = MakeCounts(stage, 0).rows() * units;
    HC_RETURN_IF_ERROR(jobs_.AddStage(record));
    HC_ASSIGN_OR_RETURN(const Lease lease,
                        jobs_.LeaseTask({job, stage, 0, units, "worker-0"}, kTerm));
    for (int unit = 0; unit < units; ++unit) {
      clock_.Advance(std::chrono::seconds(1));
      const std::string bytes = MakeFrame(stage, unit);
      HC_ASSIGN_OR_RETURN(last_digest_, chunks_.Put(bytes));
      HC_RETURN_IF_ERROR(jobs_
                             .StoreChunk(lease.task, lease.attempt, unit, last_digest_,
                                         static_cast<int64_t>(bytes.size()),
                                         MakeCounts(stage, unit))
                             .status());
    }
    return absl::OkStatus();
  }

  // A sweep that has succeeded.
  absl::Status Sweep() {
    NewJob request = Request("sweep", "ann");
    (*request.job.mutable_labels())["team"] = "interp";
    request.job.set_priority(3);
    v1::SweepSpec& sweep = *request.job.mutable_sweep();
    sweep.mutable_workload()->set_model("tiny");
    sweep.mutable_workload()->mutable_task()->set_task("piqa");
    sweep.mutable_workload()->mutable_task()->set_limit(2);
    sweep.add_scores("output_norm_ln");
    sweep.add_fractions(.25);
    sweep.set_random_seed(1234);
    HC_RETURN_IF_ERROR(jobs_.CreateJob(request, 100).status());
    const std::string job = request.job.name();
    HC_RETURN_IF_ERROR(RunStage(job, Stage::kPrepare, 1, ""));
    const std::string manifest = last_digest_;
    HC_RETURN_IF_ERROR(jobs_.PutManifestKey("prepare-key", manifest));
    v1::Provenance provenance;
    provenance.set_manifest_digest(manifest);
    provenance.set_dtype("float32");
    HC_RETURN_IF_ERROR(jobs_.SetProvenance(job, provenance));
    HC_RETURN_IF_ERROR(
        jobs_.UpdateState({job, {v1::Job::STARTING}, v1::Job::RUNNING, "LOADED"}).status());
    HC_RETURN_IF_ERROR(RunStage(job, Stage::kScore, 2, manifest));
    HC_RETURN_IF_ERROR(RunStage(job, Stage::kAblate, 2, manifest));
    v1::JobEvent event;
    event.mutable_curve_point()->set_curve("output_norm_ln");
    event.mutable_curve_point()->set_accuracy(.5);
    event.mutable_curve_point()->set_final(true);
    HC_RETURN_IF_ERROR(jobs_.AppendEvent(job, event, "curve/0/1").status());
    return jobs_.UpdateState({job, {v1::Job::RUNNING}, v1::Job::SUCCEEDED, "DONE"}).status();
  }

  // A score job with a live lease, a lost one and one of two units stored.
  absl::Status Running() {
    NewJob request = Request("running", "bob");
    request.job.mutable_score()->mutable_workload()->set_model("tiny");
    HC_RETURN_IF_ERROR(jobs_.CreateJob(request, 100).status());
    const std::string job = request.job.name();
    StageRecord record{.job = job, .stage = Stage::kScore, .plan = MakePlan(Stage::kScore)};
    record.units = 2;
    record.rows = 4;
    HC_RETURN_IF_ERROR(jobs_.AddStage(record));
    HC_ASSIGN_OR_RETURN(const Lease lost,
                        jobs_.LeaseTask({job, Stage::kScore, 1, 1, "worker-1"}, kTerm));
    HC_RETURN_IF_ERROR(
        jobs_.EndLease(lost.task, lost.attempt, LeaseEnd::kCrash, "WORKER_DIED", "signal 9")
            .status());
    HC_ASSIGN_OR_RETURN(const Lease live,
                        jobs_.LeaseTask({job, Stage::kScore, 0, 2, "worker-1"}, kTerm));
    const std::string bytes = MakeFrame(Stage::kScore, 0);
    HC_ASSIGN_OR_RETURN(const std::string digest, chunks_.Put(bytes));
    return jobs_
        .StoreChunk(live.task, live.attempt, 0, digest, static_cast<int64_t>(bytes.size()),
                    MakeCounts(Stage::kScore, 0))
        .status();
  }

  // An ablate job that failed, a queued one, and a deleted one.
  absl::Status Others() {
    NewJob failed = Request("failed", "ann");
    failed.job.mutable_ablate()->mutable_workload()->set_model("tiny");
    failed.job.mutable_ablate()->add_rules()->mutable_random()->set_p(.5);
    HC_RETURN_IF_ERROR(jobs_.CreateJob(failed, 100).status());
    google::rpc::Status error;
    error.set_code(13);
    error.set_message("unit 0 of prepare killed 3 workers");
    HC_RETURN_IF_ERROR(
        jobs_
            .UpdateState(
                {failed.job.name(), {v1::Job::QUEUED}, v1::Job::FAILED, "POISON_TASK", error})
            .status());
    NewJob queued = Request("queued", "bob");
    queued.job.mutable_score()->mutable_workload()->set_model("tiny");
    HC_RETURN_IF_ERROR(jobs_.CreateJob(queued, 100).status());
    NewJob deleted = Request("deleted", "bob");
    deleted.job.mutable_score()->mutable_workload()->set_model("tiny");
    HC_RETURN_IF_ERROR(jobs_.CreateJob(deleted, 100).status());
    HC_RETURN_IF_ERROR(
        jobs_.UpdateState({deleted.job.name(), {v1::Job::QUEUED}, v1::Job::CANCELLED}).status());
    HC_RETURN_IF_ERROR(jobs_.DeleteJob(deleted.job.name(), ""));
    return jobs_.AddUsage("ann", 12.5);
  }

 private:
  JobStore& jobs_;
  ArtifactStore& chunks_;
  FakeClock& clock_;
  std::string last_digest_;
};

absl::Status MakeFixtures(const std::string& folder) {
  if (std::filesystem::exists(folder + "/jobs.db"))
    return absl::AlreadyExistsError(folder + "/jobs.db is there; fixtures are written once");
  std::filesystem::create_directories(folder);
  FakeClock clock;
  HC_ASSIGN_OR_RETURN(auto jobs, SqliteJobStore::Open(folder + "/jobs.db", clock));
  HC_ASSIGN_OR_RETURN(auto chunks, ArtifactStore::OpenFolder(folder + "/chunks"));
  Maker maker(*jobs, *chunks, clock);
  HC_RETURN_IF_ERROR(maker.Sweep());
  HC_RETURN_IF_ERROR(maker.Running());
  return maker.Others();
}

}  // namespace
}  // namespace headcount::store

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_fixtures FOLDER\n";
    return 1;
  }
  const absl::Status status = headcount::store::MakeFixtures(argv[1]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
