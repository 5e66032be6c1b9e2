// See sqlite_job_store.h. This file knows locks, transactions, terms and the listener; the SQL is
// in the sqlite_*.cc files beside it.

#include "server/store/sqlite_job_store.h"

#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/store/sqlite_db.h"
#include "server/store/sqlite_session.h"

namespace headcount::store {
namespace {

using sqlite::Session;
using sqlite::TermedLease;

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

class SqliteStore final : public JobStore {
 public:
  SqliteStore(std::unique_ptr<Database> db, Clock& clock) : db_(std::move(db)), clock_(clock) {}

  // Gives each live lease a fresh term and reads the usage.
  absl::Status Start() {
    std::lock_guard lock(mutex_);
    const Clock::Duration now = clock_.Monotonic();
    Session session{*db_};
    HC_ASSIGN_OR_RETURN(const std::vector<TermedLease> leases, sqlite::LiveLeases(session, ""));
    for (const TermedLease& live : leases) expires_[live.lease.task] = now + live.term;
    auto usage = db_->Query("SELECT owner, seconds FROM usage");
    while (true) {
      HC_ASSIGN_OR_RETURN(const bool row, usage->Step());
      if (!row) return absl::OkStatus();
      usage_[usage->Text(0)] = {usage->Double(1), now};
    }
  }

  absl::StatusOr<CreatedJob> CreateJob(const NewJob& job, int64_t max_open_jobs) override {
    return Write([&](Session& s) { return sqlite::CreateJob(s, job, max_open_jobs); });
  }
  absl::StatusOr<v1::Job> GetJob(const std::string& name) override {
    return Read([&](Session& s) { return sqlite::GetJob(s, name); });
  }
  absl::StatusOr<JobPage> ListJobs(const ListFilter& filter, const std::string& after,
                                   int page_size) override {
    return Read([&](Session& s) { return sqlite::ListJobs(s, filter, after, page_size); });
  }
  absl::StatusOr<v1::Job> UpdateState(const StateChange& change) override {
    return Write([&](Session& s) { return sqlite::UpdateState(s, change); });
  }
  absl::Status SetProvenance(const std::string& job, const v1::Provenance& provenance) override {
    return Write([&](Session& s) { return sqlite::SetProvenance(s, job, provenance); });
  }
  absl::Status DeleteJob(const std::string& name, const std::string& etag) override {
    return Write([&](Session& s) { return sqlite::DeleteJob(s, name, etag); });
  }
  absl::StatusOr<std::vector<std::string>> OpenJobs() override {
    return Read([&](Session& s) { return sqlite::OpenJobs(s); });
  }

  absl::Status AddStage(const StageRecord& stage, const std::vector<ReusedUnit>& reused) override {
    return Write([&](Session& s) { return sqlite::AddStage(s, stage, reused); });
  }
  absl::Status ExtendStage(const StageRecord& stage) override {
    return Write([&](Session& s) { return sqlite::ExtendStage(s, stage); });
  }
  absl::StatusOr<StageRecord> GetStage(const std::string& job, Stage stage) override {
    HC_ASSIGN_OR_RETURN(std::vector<StageRecord> found,
                        Read([&](Session& s) { return sqlite::ReadStages(s, job, stage); }));
    return std::move(found.front());
  }
  absl::StatusOr<std::vector<StageRecord>> ListStages(const std::string& job) override {
    return Read([&](Session& s) { return sqlite::ReadStages(s, job, std::nullopt); });
  }

  absl::StatusOr<Lease> LeaseTask(const Assignment& assignment, Clock::Duration term) override {
    return Write([&](Session& s) { return sqlite::LeaseTask(s, assignment, term); },
                 [&](Lease& lease) { Extend(lease, term); });
  }
  absl::StatusOr<Lease> RenewLease(const std::string& task, int attempt,
                                   Clock::Duration term) override {
    std::lock_guard lock(mutex_);
    Session session{*db_};
    HC_ASSIGN_OR_RETURN(Lease lease, sqlite::FindLiveLease(session, task, attempt));
    Extend(lease, term);
    return lease;
  }
  absl::StatusOr<EndedLease> EndLease(const std::string& task, int attempt, LeaseEnd end,
                                      const std::string& cause,
                                      const std::string& detail) override {
    return Write(
        [&](Session& s) { return sqlite::EndLease(s, task, attempt, end, cause, detail); });
  }
  absl::StatusOr<std::vector<EndedLease>> ExpireLeases() override {
    return Write([&](Session& s) { return Expire(s); });
  }
  absl::StatusOr<std::vector<Lease>> ListLeases(const std::string& job) override {
    return Read([&](Session& s) -> absl::StatusOr<std::vector<Lease>> {
      HC_RETURN_IF_ERROR(sqlite::FindJob(s, job).status());
      return Leases(s, job);
    });
  }
  absl::StatusOr<QueueView> View() override {
    return Read([&](Session& s) -> absl::StatusOr<QueueView> {
      QueueView view;
      HC_ASSIGN_OR_RETURN(view.runnable, sqlite::RunnableStages(s));
      HC_ASSIGN_OR_RETURN(view.leases, Leases(s, ""));
      for (const auto& [owner, usage] : usage_) view.usage[owner] = Decayed(usage);
      return view;
    });
  }
  absl::Status AddUsage(const std::string& owner, double seconds) override {
    Usage usage;
    return Write(
        [&](Session& s) {
          const auto known = usage_.find(owner);
          usage = {seconds + (known == usage_.end() ? 0 : Decayed(known->second)),
                   clock_.Monotonic()};
          return s.db.Run(
              "INSERT INTO usage (owner, seconds) VALUES (?, ?)"
              " ON CONFLICT (owner) DO UPDATE SET seconds = excluded.seconds",
              owner, usage.seconds);
        },
        [&] { usage_[owner] = usage; });
  }

  absl::StatusOr<StoredChunk> StoreChunk(const std::string& task, int attempt, int64_t unit,
                                         const std::string& digest, int64_t bytes,
                                         const v1::UnitCounts& counts) override {
    return Write([&](Session& s) {
      return sqlite::StoreChunk(s, task, attempt, unit, digest, bytes, counts);
    });
  }
  absl::StatusOr<std::vector<ChunkRecord>> ListChunks(const std::string& job, Stage stage,
                                                      int64_t first_unit, int limit) override {
    return Read([&](Session& s) { return sqlite::ListChunks(s, job, stage, first_unit, limit); });
  }
  absl::StatusOr<std::vector<std::string>> LiveDigests() override {
    return Read([&](Session& s) { return sqlite::LiveDigests(s); });
  }
  absl::Status PutManifestKey(const std::string& key, const std::string& digest) override {
    return Write([&](Session& s) { return sqlite::PutManifestKey(s, key, digest); });
  }
  absl::StatusOr<std::optional<std::string>> FindManifestKey(const std::string& key) override {
    return Read([&](Session& s) { return sqlite::FindManifestKey(s, key); });
  }

  absl::Status PutRowKeys(const std::string& digest, const std::string& device_kind,
                          const std::vector<std::string>& keys) override {
    return Write([&](Session& s) { return sqlite::PutRowKeys(s, digest, device_kind, keys); });
  }
  absl::StatusOr<std::vector<std::vector<StoredRows>>> FindRows(
      const std::vector<std::string>& keys) override {
    return Read([&](Session& s) { return sqlite::FindRows(s, keys); });
  }

  absl::StatusOr<bool> AppendEvent(const std::string& job, const v1::JobEvent& event,
                                   const std::string& once_key) override {
    return Write([&](Session& s) { return sqlite::AppendEvent(s, job, event, once_key); });
  }
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& job, int64_t after,
                                                       int limit) override {
    return Read([&](Session& s) { return sqlite::ReadEvents(s, job, after, limit); });
  }
  absl::StatusOr<int64_t> LastSequence(const std::string& job) override {
    return Read([&](Session& s) -> absl::StatusOr<int64_t> {
      HC_ASSIGN_OR_RETURN(const sqlite::JobRow row, sqlite::FindJob(s, job));
      return row.last_sequence;
    });
  }

  void SetListener(std::function<void(const std::string& job)> listener) override {
    std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  absl::StatusOr<Totals> GetTotals() override {
    return Read([&](Session& s) { return sqlite::ReadTotals(s); });
  }

 private:
  struct Usage {
    double seconds = 0;
    Clock::Duration as_of{};  // monotonic: time that the server is down does not decay it
  };

  // One lock is enough for readers too: nobody else has the file, so a reader between two
  // transactions sees one state.
  template <class Body>
  auto Read(Body body) -> decltype(body(std::declval<Session&>())) {
    std::lock_guard lock(mutex_);
    Session session{*db_, clock_.Wall().count()};
    return body(session);
  }

  // Runs `body` in a transaction; after the commit `done` (with the result where it takes one),
  // then, outside the lock, the listener.
  template <class Body, class Done>
  auto Write(Body body, Done done) -> decltype(body(std::declval<Session&>())) {
    Session session{*db_};
    std::function<void(const std::string&)> listener;
    auto result = [&]() -> decltype(body(session)) {
      std::lock_guard lock(mutex_);
      listener = listener_;
      session.wall = clock_.Wall().count();  // under the lock: later sequences have later times
      HC_RETURN_IF_ERROR(db_->Begin());
      auto changed = body(session);
      if (!StatusOf(changed).ok()) {
        db_->Rollback();
        return changed;
      }
      HC_RETURN_IF_ERROR(db_->Commit());
      if constexpr (std::is_invocable_v<Done>) {
        done();
      } else {
        done(*changed);
      }
      return changed;
    }();
    if (StatusOf(result).ok() && listener) {
      for (const std::string& job : session.notified) listener(job);
    }
    return result;
  }
  template <class Body>
  auto Write(Body body) -> decltype(body(std::declval<Session&>())) {
    return Write(std::move(body), [] {});
  }

  // The rest needs mutex_.
  void Extend(Lease& lease, Clock::Duration term) {
    lease.expires = clock_.Monotonic() + term;
    expires_[lease.task] = lease.expires;
  }

  absl::StatusOr<std::vector<Lease>> Leases(Session& session, const std::string& job) {
    HC_ASSIGN_OR_RETURN(std::vector<TermedLease> live, sqlite::LiveLeases(session, job));
    std::vector<Lease> leases;
    for (TermedLease& one : live) {
      one.lease.expires = expires_[one.lease.task];
      leases.push_back(std::move(one.lease));
    }
    return leases;
  }

  absl::StatusOr<std::vector<EndedLease>> Expire(Session& session) {
    HC_ASSIGN_OR_RETURN(const std::vector<Lease> live, Leases(session, ""));
    const Clock::Duration now = clock_.Monotonic();
    std::map<std::string, Clock::Duration> kept;
    std::vector<EndedLease> ended;
    for (const Lease& lease : live) {
      kept[lease.task] = lease.expires;
      if (lease.expires > now) continue;
      HC_ASSIGN_OR_RETURN(EndedLease one,
                          sqlite::EndLease(session, lease.task, lease.attempt, LeaseEnd::kExpired,
                                           "LEASE_EXPIRED", "the worker was silent for too long"));
      ended.push_back(std::move(one));
    }
    // Forgets leases that ended; those that end here go the next time, should the commit fail.
    expires_ = std::move(kept);
    return ended;
  }

  double Decayed(const Usage& usage) const {
    const double half_lives =
        std::chrono::duration<double>(clock_.Monotonic() - usage.as_of) / kUsageHalfLife;
    return usage.seconds * std::exp2(-half_lives);
  }

  std::mutex mutex_;
  std::unique_ptr<Database> db_;
  Clock& clock_;
  std::map<std::string, Clock::Duration> expires_;  // by task
  std::map<std::string, Usage> usage_;              // by owner
  std::function<void(const std::string&)> listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> SqliteJobStore::Open(const std::string& path,
                                                               Clock& clock) {
  return Open(path, clock, Options());
}

absl::StatusOr<std::unique_ptr<JobStore>> SqliteJobStore::Open(const std::string& path,
                                                               Clock& clock,
                                                               const Options& options) {
  HC_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(path, options.vfs));
  HC_RETURN_IF_ERROR(OpenSchema(*db, options.migrations));
  HC_RETURN_IF_ERROR(
      db->Script(absl::StrCat("PRAGMA wal_autocheckpoint=", options.checkpoint_pages)));
  auto store = std::make_unique<SqliteStore>(std::move(db), clock);
  HC_RETURN_IF_ERROR(store->Start());
  return store;
}

}  // namespace headcount::store
