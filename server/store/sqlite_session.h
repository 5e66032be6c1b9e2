// What the parts of the SQLite store share: the open transaction and the lookups that several of
// them need. Internal to server/store; sqlite_job_store.cc makes a Session for each call and holds
// the store's lock while it lives. Not thread-safe. Errors as in job_store.h.

#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "headcount/v1/job.pb.h"
#include "server/store/job_store.h"
#include "server/store/sqlite_db.h"

namespace headcount::store::sqlite {

struct Session {
  Database& db;
  int64_t wall = 0;                // nanoseconds since the Unix epoch
  std::set<std::string> notified;  // jobs that got events, told after the commit
};

// The short part of a job's row that decisions need.
struct JobRow {
  int64_t id = 0;
  std::string name;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  int64_t revision = 0;
  int attempt = 0;
  int64_t last_sequence = 0;
};

// A task's name taken apart.
struct TaskName {
  std::string job;
  int attempt = 0;
};

bool IsTerminal(v1::Job::State state);
// QUEUED, STARTING, RUNNING.
bool IsRunnable(v1::Job::State state);

absl::Status NoSuchJob(std::string_view name);
absl::Status LeaseLost(std::string_view task, std::string_view why);

absl::StatusOr<JobRow> FindJob(Session& session, const std::string& name);
std::string MakeTaskName(std::string_view job, int attempt);
absl::StatusOr<TaskName> ParseTaskName(std::string_view task);

// --- events (sqlite_events.cc) ---
// Writes `event` with the job's next sequence, which is returned and put into `job`.
absl::StatusOr<int64_t> WriteEvent(Session& session, JobRow& job, v1::JobEvent event);
absl::StatusOr<bool> AppendEvent(Session& session, const std::string& job,
                                 const v1::JobEvent& event, const std::string& once_key);
absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(Session& session, const std::string& job,
                                                     int64_t after, int limit);

// --- jobs (sqlite_jobs.cc) ---
absl::StatusOr<CreatedJob> CreateJob(Session& session, const NewJob& job, int64_t max_open_jobs);
absl::StatusOr<v1::Job> GetJob(Session& session, const std::string& name);
absl::StatusOr<JobPage> ListJobs(Session& session, const ListFilter& filter,
                                 const std::string& after, int page_size);
absl::StatusOr<v1::Job> UpdateState(Session& session, const StateChange& change);
// Writes the state, its reason and its event; sets start and end times.
absl::Status ChangeState(Session& session, JobRow& job, v1::Job::State to,
                         const std::string& reason, const google::rpc::Status* error);
absl::Status SetProvenance(Session& session, const std::string& job,
                           const v1::Provenance& provenance);
absl::Status DeleteJob(Session& session, const std::string& name, const std::string& etag);
absl::StatusOr<std::vector<std::string>> OpenJobs(Session& session);

// --- stages, units and chunks (sqlite_stages.cc) ---
absl::Status AddStage(Session& session, const StageRecord& stage,
                      const std::vector<ReusedUnit>& reused);
absl::Status ExtendStage(Session& session, const StageRecord& stage);
// Without `stage`: all of the job's, in order.
absl::StatusOr<std::vector<StageRecord>> ReadStages(Session& session, const std::string& job,
                                                    std::optional<Stage> stage);
absl::StatusOr<std::vector<ChunkRecord>> ListChunks(Session& session, const std::string& job,
                                                    Stage stage, int64_t first_unit, int limit);
absl::StatusOr<std::vector<std::string>> LiveDigests(Session& session);
absl::Status PutManifestKey(Session& session, const std::string& key, const std::string& digest);
absl::StatusOr<std::optional<std::string>> FindManifestKey(Session& session,
                                                           const std::string& key);
absl::StatusOr<std::vector<UnitInterval>> FreeUnits(Session& session, int64_t job_id, Stage stage);
// Takes the units out of the free ones; false, and nothing taken, unless all of them are free.
absl::StatusOr<bool> TakeUnits(Session& session, int64_t job_id, Stage stage, UnitInterval units);
// Frees those of `units` that are not stored and joins them to their free neighbours.
absl::Status FreeUnstored(Session& session, int64_t job_id, Stage stage, UnitInterval units);
// The first of `units` that is not stored, or -1.
absl::StatusOr<int64_t> FirstUnstored(Session& session, int64_t job_id, Stage stage,
                                      UnitInterval units);

// --- units that another job computed (sqlite_reuse.cc) ---
absl::Status PutRowKeys(Session& session, const std::string& digest, const std::string& device_kind,
                        const std::vector<std::string>& keys);
absl::StatusOr<std::vector<std::vector<StoredRows>>> FindRows(Session& session,
                                                              const std::vector<std::string>& keys);
// Takes the unit of a stage that was just added and stores it.
absl::Status StoreReused(Session& session, int64_t job_id, Stage stage, const ReusedUnit& unit);
// Adds to the job's progress and provenance how many units it reuses, and whose.
absl::Status ReadReuse(Session& session, int64_t job_id, v1::Job* job);
// Forgets keys whose chunks no job refers to any more.
absl::Status ForgetRows(Session& session);

// --- leases (sqlite_leases.cc); Lease::expires is left to the caller ---
absl::StatusOr<Lease> LeaseTask(Session& session, const Assignment& assignment,
                                Clock::Duration term);
// The live lease; ABORTED (LEASE_LOST) when there is none.
absl::StatusOr<Lease> FindLiveLease(Session& session, const std::string& task, int attempt);
absl::StatusOr<EndedLease> EndLease(Session& session, const std::string& task, int attempt,
                                    LeaseEnd end, const std::string& cause,
                                    const std::string& detail);
absl::Status ReleaseAll(Session& session, const JobRow& job);
absl::StatusOr<StoredChunk> StoreChunk(Session& session, const std::string& task, int attempt,
                                       int64_t unit, const std::string& digest, int64_t bytes,
                                       const v1::UnitCounts& counts);
struct TermedLease {
  Lease lease;
  Clock::Duration term{};  // as first given
};
// Live leases, of one job or (empty) of all, in order of job and attempt.
absl::StatusOr<std::vector<TermedLease>> LiveLeases(Session& session, const std::string& job);

// --- what the queue and the metrics see (sqlite_view.cc) ---
absl::StatusOr<std::vector<RunnableStage>> RunnableStages(Session& session);
absl::StatusOr<JobStore::Totals> ReadTotals(Session& session);

}  // namespace headcount::store::sqlite
