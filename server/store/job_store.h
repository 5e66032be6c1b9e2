// The durable truth about jobs: their states, stages, units, leases and events. Every call is one
// transaction; when it returns OK the change survives any crash. Backends implement this interface;
// one conformance suite (tests/server/store/conformance.h) runs over all of them.
//
// Vocabulary: a stage is cut into units 0..n-1; a lease gives consecutive units to a worker;
// `attempt` is the job's count of leases and so grows with every one: it is the fencing token. A
// unit's first stored chunk wins. Events of a job have a dense sequence from 1 and are written in
// the transaction of the change they tell; the first tells of QUEUED, the one of the job's end is
// the last.
//
// A caller that gets an error other than those of the contract (UNAVAILABLE above all) cannot know
// whether the change was made. Asking again is safe everywhere: it answers the same or, for
// LeaseTask, UpdateState and AddStage, says that the state has moved on, which the next look shows.
//
// Time: leases run on the injected clock's monotonic time; when a store is opened, each live lease
// gets one fresh term. Thread-safe. Errors: NOT_FOUND (no such job, stage, task),
// FAILED_PRECONDITION (state does not allow it), ABORTED (lease lost, etag differs),
// ALREADY_EXISTS, RESOURCE_EXHAUSTED (disk full), UNAVAILABLE (busy, another process has the file),
// DATA_LOSS (corrupt), INTERNAL.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "headcount/v1/job.pb.h"
#include "headcount/v1/job_service.pb.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::store {

enum class Stage { kPrepare = 0, kScore = 1, kAblate = 2 };
std::string_view StageName(Stage stage);  // prepare, score, ablate
absl::StatusOr<Stage> ParseStage(std::string_view name);

struct NewJob {
  v1::Job job;  // name, uid, owner, labels, priority and spec are set; state and times are set by
                // the store
  std::string request_id;   // scoped by owner; empty: not idempotent
  std::string body_digest;  // of what the request id stands for
};

struct CreatedJob {
  v1::Job job;
  bool created = false;  // false: the request id was used before with the same body; `job` is that
                         // job as it is now
};

struct ListFilter {
  std::string project;  // "default"
  v1::JobFilter filter;
};

// Keyset pages, newest first. `after` is the last job of the page before.
struct JobPage {
  std::vector<v1::Job> jobs;
  bool more = false;
};

struct StageRecord {
  std::string job;
  Stage stage = Stage::kPrepare;
  v1::StagePlan plan;
  std::string manifest_digest;
  int64_t units = 0;
  int64_t done_units = 0;
  int64_t rows = 0;  // of all units
  int64_t done_rows = 0;
};

// What a lease is asked for: consecutive units of one stage, none stored, none leased.
struct Assignment {
  std::string job;
  Stage stage = Stage::kPrepare;
  int64_t first_unit = 0;
  int64_t unit_count = 1;
  std::string worker;
};

struct Lease {
  std::string task;  // "<job>/tasks/<attempt>"
  std::string job;
  Stage stage = Stage::kPrepare;
  int64_t first_unit = 0;
  int64_t unit_count = 0;
  int64_t stored_units = 0;  // of these, stored by this lease or before
  int attempt = 0;
  std::string worker;
  Clock::Duration expires{};  // monotonic
};

// Why a lease ended. Only kCrash and kExpired count as failures, and only when no unit was stored
// under the lease.
enum class LeaseEnd {
  kDone,      // every unit is stored
  kReleased,  // given back: cancel, drain, preemption, server asked
  kExpired,   // silence
  kCrash,     // the worker said or its launcher saw that it died, or the task failed on it
};

// `failed_unit` is the unit a lost lease (kExpired, kCrash) stopped at: its first that is not
// stored; -1 for other ends. `failures` is how often in a row leases failed there, this end
// included; storing the unit sets it back to 0.
struct EndedLease {
  Lease lease;
  int failures = 0;
  int64_t failed_unit = -1;
};

enum class StoreOutcome { kStored, kDuplicate };

struct StoredChunk {
  StoreOutcome outcome = StoreOutcome::kStored;
  int64_t sequence = 0;  // of its unit_stored event; 0 for a duplicate
  bool stage_complete = false;
  bool lease_complete = false;
};

struct ChunkRecord {
  Stage stage = Stage::kPrepare;
  int64_t unit = 0;
  std::string digest;  // of the framed bytes, names the file
  int64_t bytes = 0;
  v1::UnitCounts counts;
};

// Where the rows of one rule over a block of samples are kept: place `row` among the rules of an
// ablate chunk; 0 for a score chunk, which is meant as a whole.
struct StoredRows {
  std::string digest;
  int row = 0;
  std::string device_kind;  // that computed them
  std::string job;          // the oldest that still has the chunk
};

// A unit of a new stage that another job has computed. Its chunk is on disk.
struct ReusedUnit {
  int64_t unit = 0;
  std::string digest;
  int64_t bytes = 0;
  v1::UnitCounts counts;
  std::string source;  // the job that computed it, by name
};

struct UnitInterval {
  int64_t first = 0;
  int64_t count = 0;
};

// A job that could use a worker now: QUEUED, STARTING or RUNNING with units neither stored nor
// leased.
struct RunnableStage {
  std::string job;
  std::string owner;
  std::string model;
  int priority = 0;
  Clock::Duration created{};  // wall time
  Stage stage = Stage::kPrepare;
  std::vector<UnitInterval> free_units;  // ascending
  int64_t rows_per_unit = 1;             // average, to cut by speed
};

// Usage loses half of its weight in this time (of a running server).
inline constexpr std::chrono::hours kUsageHalfLife{24};

struct QueueView {
  std::vector<RunnableStage> runnable;  // oldest first
  std::vector<Lease> leases;            // live ones
  std::map<std::string, double> usage;  // owner -> accelerator-seconds, decayed to now
};

struct StateChange {
  std::string job;
  std::vector<v1::Job::State> from;  // FAILED_PRECONDITION when the job is in none of them
  v1::Job::State to = v1::Job::STATE_UNSPECIFIED;
  std::string reason;
  std::optional<google::rpc::Status> error;
  std::string etag;  // ABORTED (ETAG_MISMATCH) unless empty or current
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // --- jobs ---
  // ALREADY_EXISTS: the request id was used with another body (REQUEST_ID_REUSED), or a job has or
  // had this name (NAME_TAKEN). NOT_FOUND (JOB_DELETED): the request id's job has been deleted;
  // there will be no second one. RESOURCE_EXHAUSTED (QUEUE_FULL) when `max_open_jobs` have not
  // ended; never for a request id that has its job.
  virtual absl::StatusOr<CreatedJob> CreateJob(const NewJob& job, int64_t max_open_jobs) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& name) = 0;
  // `after`: name of the last job of the page before, empty for the first page; it may have been
  // deleted since. INVALID_ARGUMENT (INVALID_PAGE_TOKEN) when it never was a job.
  virtual absl::StatusOr<JobPage> ListJobs(const ListFilter& filter, const std::string& after,
                                           int page_size) = 0;
  // Changes the state and writes the event. Returns the job after it. A change to the state it is
  // in is FAILED_PRECONDITION unless that state is in `from`, then nothing is written. The reason
  // of a refusal is JOB_TERMINAL for a job that has ended, else JOB_STATE. A job that ends has its
  // live leases released in the same transaction. The etag changes with the state, the attempt and
  // the provenance, not with progress.
  virtual absl::StatusOr<v1::Job> UpdateState(const StateChange& change) = 0;
  // Only merges fields that are set; not an event.
  virtual absl::Status SetProvenance(const std::string& job, const v1::Provenance& provenance) = 0;
  // FAILED_PRECONDITION (JOB_NOT_TERMINAL) unless ended. Takes with it all that only this job
  // refers to; its chunk files go with the next collection.
  virtual absl::Status DeleteJob(const std::string& name, const std::string& etag) = 0;
  // Names of jobs that have not ended, oldest first: what a starting server goes on with.
  virtual absl::StatusOr<std::vector<std::string>> OpenJobs() = 0;

  // --- stages ---
  // `units` (1 or more), `rows`, `plan` and `manifest_digest` are stored; done counts start at 0.
  // ALREADY_EXISTS when the job has that stage; FAILED_PRECONDITION unless the job is QUEUED,
  // STARTING or RUNNING. Writes stage_planned. `reused` units, each at most once, are stored from
  // the start, without events of their own; OUT_OF_RANGE for one beyond the stage's end.
  virtual absl::Status AddStage(const StageRecord& stage,
                                const std::vector<ReusedUnit>& reused) = 0;
  absl::Status AddStage(const StageRecord& stage) { return AddStage(stage, {}); }
  // Adds units at the end of a stage: `units`, `rows` and `plan` are those of the longer stage, in
  // which the units that there were mean the same. FAILED_PRECONDITION (JOB_STATE) as AddStage;
  // ABORTED (STAGE_CHANGED) unless the stage has fewer units now. Writes stage_planned.
  virtual absl::Status ExtendStage(const StageRecord& stage) = 0;
  virtual absl::StatusOr<StageRecord> GetStage(const std::string& job, Stage stage) = 0;
  virtual absl::StatusOr<std::vector<StageRecord>> ListStages(const std::string& job) = 0;

  // --- leases ---
  // The attempt is the job's next. A QUEUED job becomes STARTING. ABORTED when not all units are
  // free (UNITS_TAKEN) or the job may not run (JOB_STATE): take a new view.
  virtual absl::StatusOr<Lease> LeaseTask(const Assignment& assignment, Clock::Duration term) = 0;
  // ABORTED (LEASE_LOST) unless (task, attempt) is live.
  virtual absl::StatusOr<Lease> RenewLease(const std::string& task, int attempt,
                                           Clock::Duration term) = 0;
  // Frees what is not stored. Ending one that has ended is OK and returns it with its failures
  // unchanged. Writes task_lost for kExpired and kCrash. NOT_FOUND when there never was such a
  // task.
  virtual absl::StatusOr<EndedLease> EndLease(const std::string& task, int attempt, LeaseEnd end,
                                              const std::string& cause,
                                              const std::string& detail) = 0;
  // Ends every lease whose term is over.
  virtual absl::StatusOr<std::vector<EndedLease>> ExpireLeases() = 0;
  // Live leases of a job.
  virtual absl::StatusOr<std::vector<Lease>> ListLeases(const std::string& job) = 0;
  virtual absl::StatusOr<QueueView> View() = 0;
  // Adds to an owner's accelerator-seconds.
  virtual absl::Status AddUsage(const std::string& owner, double seconds) = 0;

  // --- results ---
  // The chunk file `digest` is on disk already. Checks the lease, stores the row, its counts and a
  // unit_stored event, and ends the lease with kDone when it was its last unit. kDuplicate, and
  // nothing changed, when the unit is stored, whoever did it and whether or not the lease is live.
  // Otherwise ABORTED (LEASE_LOST) unless (task, attempt) is live and holds the unit.
  virtual absl::StatusOr<StoredChunk> StoreChunk(const std::string& task, int attempt, int64_t unit,
                                                 const std::string& digest, int64_t bytes,
                                                 const v1::UnitCounts& counts) = 0;
  // In unit order from `first_unit`, at most `limit`.
  virtual absl::StatusOr<std::vector<ChunkRecord>> ListChunks(const std::string& job, Stage stage,
                                                              int64_t first_unit, int limit) = 0;
  // Digests that some job refers to (chunks and manifests): what collection must keep.
  virtual absl::StatusOr<std::vector<std::string>> LiveDigests() = 0;
  // A manifest by what it was made from, so that a second job skips its prepare stage. Found only
  // while some job refers to the digest, because else its file may have been collected.
  virtual absl::Status PutManifestKey(const std::string& key, const std::string& digest) = 0;
  virtual absl::StatusOr<std::optional<std::string>> FindManifestKey(const std::string& key) = 0;
  // The rows of a stored chunk by what they were computed from, so that no job computes them again:
  // keys[i] is known for row i. A later chunk takes the place of an earlier one of the same kind of
  // device. Found while some job refers to the chunk.
  virtual absl::Status PutRowKeys(const std::string& digest, const std::string& device_kind,
                                  const std::vector<std::string>& keys) = 0;
  // For each key what there is, one entry a kind of device.
  virtual absl::StatusOr<std::vector<std::vector<StoredRows>>> FindRows(
      const std::vector<std::string>& keys) = 0;

  // --- events ---
  // Stores an event that is derived from stored data. False, and nothing written, when `once_key`
  // (empty: none) was used for this job, or the job has ended.
  virtual absl::StatusOr<bool> AppendEvent(const std::string& job, const v1::JobEvent& event,
                                           const std::string& once_key) = 0;
  // Events with sequence > after, ascending, at most `limit`; sequence and time are set.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job,
                                                               int64_t after, int limit) = 0;
  virtual absl::StatusOr<int64_t> LastSequence(const std::string& job) = 0;

  // Called after a transaction that wrote events, outside any lock, from the thread that wrote. Set
  // before use.
  virtual void SetListener(std::function<void(const std::string& job)> listener) = 0;

  // Counts for /metrics.
  struct Totals {
    std::map<v1::Job::State, int64_t> jobs;
    int64_t live_leases = 0;
    int64_t chunk_bytes = 0;
    double oldest_queued_seconds = 0;
  };
  virtual absl::StatusOr<Totals> GetTotals() = 0;
};

}  // namespace headcount::store
