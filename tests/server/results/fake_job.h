// A job whose results are made up in memory, for the tests of readers: a JobStore that knows one
// job's stages and chunks and nothing else. Not thread-safe.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/format/frame.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

class FakeJob : public store::JobStore {
 public:
  static constexpr const char* kName = "projects/default/jobs/test";

  explicit FakeJob(
      std::unique_ptr<store::ArtifactStore> artifacts = store::ArtifactStore::InMemory())
      : artifacts_(std::move(artifacts)) {
    job_.set_name(kName);
    job_.set_uid("uid");
  }

  v1::Job& job() { return job_; }
  store::ArtifactStore& artifacts() { return *artifacts_; }

  // Plans a stage whose units are rule blocks x sample blocks.
  void Plan(store::Stage stage, const v1::StagePlan& plan, const v1::Manifest& manifest) {
    store::StageRecord record;
    record.job = kName;
    record.stage = stage;
    record.plan = plan;
    record.manifest_digest =
        artifacts_->Put(format::Frame(format::FrameKind::kManifest, manifest)).value();
    const int per_unit = plan.rules_per_unit();
    const int rule_blocks = per_unit == 0 ? 1 : (plan.rules_size() + per_unit - 1) / per_unit;
    record.units =
        plan.units().empty() ? int64_t{rule_blocks} * plan.sample_blocks_size() : plan.units_size();
    stages_[stage] = record;
  }
  void Store(int64_t unit, const v1::ScoreChunk& chunk) {
    StoreFrame(store::Stage::kScore, unit, format::FrameKind::kScoreChunk, chunk);
  }
  void Store(int64_t unit, const v1::AblateChunk& chunk) {
    StoreFrame(store::Stage::kAblate, unit, format::FrameKind::kAblateChunk, chunk);
  }

  absl::StatusOr<v1::Job> GetJob(const std::string& name) override {
    if (name != kName) return absl::NotFoundError(name);
    return job_;
  }
  absl::StatusOr<std::vector<store::StageRecord>> ListStages(const std::string& name) override {
    if (name != kName) return absl::NotFoundError(name);
    std::vector<store::StageRecord> stages;
    for (const auto& [stage, record] : stages_) {
      stages.push_back(record);
      stages.back().done_units = static_cast<int64_t>(chunks_[stage].size());
    }
    return stages;
  }
  absl::StatusOr<std::vector<store::ChunkRecord>> ListChunks(const std::string& name,
                                                             store::Stage stage, int64_t first_unit,
                                                             int limit) override {
    std::vector<store::ChunkRecord> page;
    const std::map<int64_t, store::ChunkRecord>& chunks = chunks_[stage];
    for (auto at = chunks.lower_bound(first_unit);
         at != chunks.end() && static_cast<int>(page.size()) < limit; ++at) {
      page.push_back(at->second);
    }
    return page;
  }

  // What no reader calls.
  absl::StatusOr<store::CreatedJob> CreateJob(const store::NewJob&, int64_t) override {
    return Unused();
  }
  absl::StatusOr<store::JobPage> ListJobs(const store::ListFilter&, const std::string&,
                                          int) override {
    return Unused();
  }
  absl::StatusOr<v1::Job> UpdateState(const store::StateChange&) override { return Unused(); }
  absl::Status SetProvenance(const std::string&, const v1::Provenance&) override {
    return Unused();
  }
  absl::Status DeleteJob(const std::string&, const std::string&) override { return Unused(); }
  absl::StatusOr<std::vector<std::string>> OpenJobs() override { return Unused(); }
  absl::Status AddStage(const store::StageRecord&, const std::vector<store::ReusedUnit>&) override {
    return Unused();
  }
  absl::Status ExtendStage(const store::StageRecord&) override { return Unused(); }
  absl::StatusOr<store::StageRecord> GetStage(const std::string&, store::Stage) override {
    return Unused();
  }
  absl::StatusOr<store::Lease> LeaseTask(const store::Assignment&, Clock::Duration) override {
    return Unused();
  }
  absl::StatusOr<store::Lease> RenewLease(const std::string&, int, Clock::Duration) override {
    return Unused();
  }
  absl::StatusOr<store::EndedLease> EndLease(const std::string&, int, store::LeaseEnd,
                                             const std::string&, const std::string&) override {
    return Unused();
  }
  absl::StatusOr<std::vector<store::EndedLease>> ExpireLeases() override { return Unused(); }
  absl::StatusOr<std::vector<store::Lease>> ListLeases(const std::string&) override {
    return Unused();
  }
  absl::StatusOr<store::QueueView> View() override { return Unused(); }
  absl::Status AddUsage(const std::string&, double) override { return Unused(); }
  absl::StatusOr<store::StoredChunk> StoreChunk(const std::string&, int, int64_t,
                                                const std::string&, int64_t,
                                                const v1::UnitCounts&) override {
    return Unused();
  }
  absl::StatusOr<std::vector<std::string>> LiveDigests() override { return Unused(); }
  absl::Status PutManifestKey(const std::string&, const std::string&) override { return Unused(); }
  absl::StatusOr<std::optional<std::string>> FindManifestKey(const std::string&) override {
    return Unused();
  }
  absl::Status PutRowKeys(const std::string&, const std::string&,
                          const std::vector<std::string>&) override {
    return Unused();
  }
  absl::StatusOr<std::vector<std::vector<store::StoredRows>>> FindRows(
      const std::vector<std::string>&) override {
    return Unused();
  }
  absl::StatusOr<bool> AppendEvent(const std::string&, const v1::JobEvent&,
                                   const std::string&) override {
    return Unused();
  }
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string&, int64_t, int) override {
    return Unused();
  }
  absl::StatusOr<int64_t> LastSequence(const std::string&) override { return Unused(); }
  void SetListener(std::function<void(const std::string&)>) override {}
  absl::StatusOr<Totals> GetTotals() override { return Unused(); }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not part of this fake"); }

  void StoreFrame(store::Stage stage, int64_t unit, format::FrameKind kind,
                  const google::protobuf::MessageLite& chunk) {
    const std::string bytes = format::Frame(kind, chunk);
    store::ChunkRecord record;
    record.stage = stage;
    record.unit = unit;
    record.bytes = static_cast<int64_t>(bytes.size());
    record.digest = artifacts_->Put(bytes).value();
    chunks_[stage][unit] = record;
  }

  std::unique_ptr<store::ArtifactStore> artifacts_;
  v1::Job job_;
  std::map<store::Stage, store::StageRecord> stages_;
  std::map<store::Stage, std::map<int64_t, store::ChunkRecord>> chunks_;
};

}  // namespace headcount::results
