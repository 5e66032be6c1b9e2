// A JobStore that fails now and then, for tests of everything above it: before the call ("not
// done"), or after it ("done, but the answer is lost", what a time-out looks like). Both answer
// UNAVAILABLE, and the caller cannot tell which it was.
//
// Thread-safe. The sequence of faults depends on the seed and the order of calls alone.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>

#include "server/store/job_store.h"

namespace headcount::store {

struct FaultRates {
  double not_done = 0;     // share of calls, [0, 1]
  double answer_lost = 0;  // share of the others
  uint64_t seed = 0;
};

class FaultyJobStore final : public JobStore {
 public:
  FaultyJobStore(std::unique_ptr<JobStore> store, FaultRates rates);

  // Switches the faults off and on again; on from the start.
  void SetFaults(bool on);
  int64_t faults() const;  // injected so far

  absl::StatusOr<CreatedJob> CreateJob(const NewJob& job, int64_t max_open_jobs) override;
  absl::StatusOr<v1::Job> GetJob(const std::string& name) override;
  absl::StatusOr<JobPage> ListJobs(const ListFilter& filter, const std::string& after,
                                   int page_size) override;
  absl::StatusOr<v1::Job> UpdateState(const StateChange& change) override;
  absl::Status SetProvenance(const std::string& job, const v1::Provenance& provenance) override;
  absl::Status DeleteJob(const std::string& name, const std::string& etag) override;
  absl::StatusOr<std::vector<std::string>> OpenJobs() override;
  absl::Status AddStage(const StageRecord& stage, const std::vector<ReusedUnit>& reused) override;
  absl::Status ExtendStage(const StageRecord& stage) override;
  absl::StatusOr<StageRecord> GetStage(const std::string& job, Stage stage) override;
  absl::StatusOr<std::vector<StageRecord>> ListStages(const std::string& job) override;
  absl::StatusOr<Lease> LeaseTask(const Assignment& assignment, Clock::Duration term) override;
  absl::StatusOr<Lease> RenewLease(const std::string& task, int attempt,
                                   Clock::Duration term) override;
  absl::StatusOr<EndedLease> EndLease(const std::string& task, int attempt, LeaseEnd end,
                                      const std::string& cause, const std::string& detail) override;
  absl::StatusOr<std::vector<EndedLease>> ExpireLeases() override;
  absl::StatusOr<std::vector<Lease>> ListLeases(const std::string& job) override;
  absl::StatusOr<QueueView> View() override;
  absl::Status AddUsage(const std::string& owner, double seconds) override;
  absl::StatusOr<StoredChunk> StoreChunk(const std::string& task, int attempt, int64_t unit,
                                         const std::string& digest, int64_t bytes,
                                         const v1::UnitCounts& counts) override;
  absl::StatusOr<std::vector<ChunkRecord>> ListChunks(const std::string& job, Stage stage,
                                                      int64_t first_unit, int limit) override;
  absl::StatusOr<std::vector<std::string>> LiveDigests() override;
  absl::Status PutManifestKey(const std::string& key, const std::string& digest) override;
  absl::StatusOr<std::optional<std::string>> FindManifestKey(const std::string& key) override;
  absl::Status PutRowKeys(const std::string& digest, const std::string& device_kind,
                          const std::vector<std::string>& keys) override;
  absl::StatusOr<std::vector<std::vector<StoredRows>>> FindRows(
      const std::vector<std::string>& keys) override;
  absl::StatusOr<bool> AppendEvent(const std::string& job, const v1::JobEvent& event,
                                   const std::string& once_key) override;
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job, int64_t after,
                                                       int limit) override;
  absl::StatusOr<int64_t> LastSequence(const std::string& job) override;
  void SetListener(std::function<void(const std::string& job)> listener) override;
  absl::StatusOr<Totals> GetTotals() override;

 private:
  bool Draw(double rate);
  template <class Call>
  auto With(Call call) -> decltype(call());

  std::unique_ptr<JobStore> store_;
  const FaultRates rates_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  bool on_ = true;
  int64_t faults_ = 0;
};

}  // namespace headcount::store
