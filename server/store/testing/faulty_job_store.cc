// See faulty_job_store.h.

#include "server/store/testing/faulty_job_store.h"

#include <utility>

namespace headcount::store {

FaultyJobStore::FaultyJobStore(std::unique_ptr<JobStore> store, FaultRates rates)
    : store_(std::move(store)), rates_(rates), random_(rates.seed) {}

void FaultyJobStore::SetFaults(bool on) {
  std::lock_guard lock(mutex_);
  on_ = on;
}

int64_t FaultyJobStore::faults() const {
  std::lock_guard lock(mutex_);
  return faults_;
}

bool FaultyJobStore::Draw(double rate) {
  std::lock_guard lock(mutex_);
  if (!on_ || std::uniform_real_distribution<double>(0, 1)(random_) >= rate) return false;
  ++faults_;
  return true;
}

template <class Call>
auto FaultyJobStore::With(Call call) -> decltype(call()) {
  if (Draw(rates_.not_done)) return absl::UnavailableError("injected fault: not done");
  auto result = call();
  if (Draw(rates_.answer_lost)) return absl::UnavailableError("injected fault: the answer is lost");
  return result;
}

absl::StatusOr<CreatedJob> FaultyJobStore::CreateJob(const NewJob& job, int64_t max_open_jobs) {
  return With([&] { return store_->CreateJob(job, max_open_jobs); });
}
absl::StatusOr<v1::Job> FaultyJobStore::GetJob(const std::string& name) {
  return With([&] { return store_->GetJob(name); });
}
absl::StatusOr<JobPage> FaultyJobStore::ListJobs(const ListFilter& filter, const std::string& after,
                                                 int page_size) {
  return With([&] { return store_->ListJobs(filter, after, page_size); });
}
absl::StatusOr<v1::Job> FaultyJobStore::UpdateState(const StateChange& change) {
  return With([&] { return store_->UpdateState(change); });
}
absl::Status FaultyJobStore::SetProvenance(const std::string& job,
                                           const v1::Provenance& provenance) {
  return With([&] { return store_->SetProvenance(job, provenance); });
}
absl::Status FaultyJobStore::DeleteJob(const std::string& name, const std::string& etag) {
  return With([&] { return store_->DeleteJob(name, etag); });
}
absl::StatusOr<std::vector<std::string>> FaultyJobStore::OpenJobs() {
  return With([&] { return store_->OpenJobs(); });
}
absl::Status FaultyJobStore::AddStage(const StageRecord& stage,
                                      const std::vector<ReusedUnit>& reused) {
  return With([&] { return store_->AddStage(stage, reused); });
}

absl::Status FaultyJobStore::ExtendStage(const StageRecord& stage) {
  return With([&] { return store_->ExtendStage(stage); });
}
absl::StatusOr<StageRecord> FaultyJobStore::GetStage(const std::string& job, Stage stage) {
  return With([&] { return store_->GetStage(job, stage); });
}
absl::StatusOr<std::vector<StageRecord>> FaultyJobStore::ListStages(const std::string& job) {
  return With([&] { return store_->ListStages(job); });
}
absl::StatusOr<Lease> FaultyJobStore::LeaseTask(const Assignment& assignment,
                                                Clock::Duration term) {
  return With([&] { return store_->LeaseTask(assignment, term); });
}
absl::StatusOr<Lease> FaultyJobStore::RenewLease(const std::string& task, int attempt,
                                                 Clock::Duration term) {
  return With([&] { return store_->RenewLease(task, attempt, term); });
}
absl::StatusOr<EndedLease> FaultyJobStore::EndLease(const std::string& task, int attempt,
                                                    LeaseEnd end, const std::string& cause,
                                                    const std::string& detail) {
  return With([&] { return store_->EndLease(task, attempt, end, cause, detail); });
}
absl::StatusOr<std::vector<EndedLease>> FaultyJobStore::ExpireLeases() {
  return With([&] { return store_->ExpireLeases(); });
}
absl::StatusOr<std::vector<Lease>> FaultyJobStore::ListLeases(const std::string& job) {
  return With([&] { return store_->ListLeases(job); });
}
absl::StatusOr<QueueView> FaultyJobStore::View() {
  return With([&] { return store_->View(); });
}
absl::Status FaultyJobStore::AddUsage(const std::string& owner, double seconds) {
  return With([&] { return store_->AddUsage(owner, seconds); });
}
absl::StatusOr<StoredChunk> FaultyJobStore::StoreChunk(const std::string& task, int attempt,
                                                       int64_t unit, const std::string& digest,
                                                       int64_t bytes,
                                                       const v1::UnitCounts& counts) {
  return With([&] { return store_->StoreChunk(task, attempt, unit, digest, bytes, counts); });
}
absl::StatusOr<std::vector<ChunkRecord>> FaultyJobStore::ListChunks(const std::string& job,
                                                                    Stage stage, int64_t first_unit,
                                                                    int limit) {
  return With([&] { return store_->ListChunks(job, stage, first_unit, limit); });
}
absl::StatusOr<std::vector<std::string>> FaultyJobStore::LiveDigests() {
  return With([&] { return store_->LiveDigests(); });
}
absl::Status FaultyJobStore::PutManifestKey(const std::string& key, const std::string& digest) {
  return With([&] { return store_->PutManifestKey(key, digest); });
}
absl::StatusOr<std::optional<std::string>> FaultyJobStore::FindManifestKey(const std::string& key) {
  return With([&] { return store_->FindManifestKey(key); });
}
absl::Status FaultyJobStore::PutRowKeys(const std::string& digest, const std::string& device_kind,
                                        const std::vector<std::string>& keys) {
  return With([&] { return store_->PutRowKeys(digest, device_kind, keys); });
}
absl::StatusOr<std::vector<std::vector<StoredRows>>> FaultyJobStore::FindRows(
    const std::vector<std::string>& keys) {
  return With([&] { return store_->FindRows(keys); });
}
absl::StatusOr<bool> FaultyJobStore::AppendEvent(const std::string& job, const v1::JobEvent& event,
                                                 const std::string& once_key) {
  return With([&] { return store_->AppendEvent(job, event, once_key); });
}
absl::StatusOr<std::vector<v1::JobEvent>> FaultyJobStore::ReadEvents(const std::string& job,
                                                                     int64_t after, int limit) {
  return With([&] { return store_->ReadEvents(job, after, limit); });
}
absl::StatusOr<int64_t> FaultyJobStore::LastSequence(const std::string& job) {
  return With([&] { return store_->LastSequence(job); });
}
void FaultyJobStore::SetListener(std::function<void(const std::string& job)> listener) {
  store_->SetListener(std::move(listener));
}
absl::StatusOr<JobStore::Totals> FaultyJobStore::GetTotals() {
  return With([&] { return store_->GetTotals(); });
}

}  // namespace headcount::store
