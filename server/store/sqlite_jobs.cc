// Jobs: creation by request id, reading, states, deletion. See sqlite_session.h and job_store.h.

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "google/protobuf/util/time_util.h"
#include "server/store/sqlite_session.h"

namespace headcount::store::sqlite {
namespace {

using google::protobuf::util::TimeUtil;

constexpr char kJobColumns[] =
    "SELECT j.name, j.uid, j.owner, j.parent, j.priority, j.state, j.state_reason, j.revision,"
    " j.attempt, j.create_time, j.start_time, j.end_time, j.update_time, j.expire_time, j.error,"
    " j.provenance, s.spec,"
    " coalesce((SELECT max(failures) FROM unit_failures WHERE job_id = j.id), 0), j.id"
    " FROM jobs j JOIN job_specs s ON s.job_id = j.id ";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

constexpr int kMostLabels = 64;  // of a job, as job.proto says

std::string Etag(int64_t revision) { return absl::StrCat("r", revision); }

absl::Status CheckEtag(const JobRow& job, const std::string& etag) {
  if (etag.empty() || etag == Etag(job.revision)) return absl::OkStatus();
  return WithReason(
      absl::AbortedError(absl::StrCat(job.name, " has changed: its etag is ", Etag(job.revision),
                                      ", not ", absl::string_view(etag).substr(0, 64))),
      "ETAG_MISMATCH");
}

// "projects/<project>/jobs/<job>" -> "<project>".
std::string ProjectOf(const std::string& name) {
  constexpr size_t kPrefix = std::string_view("projects/").size();
  const size_t end = name.find('/', kPrefix);
  return end == std::string::npos ? "" : name.substr(kPrefix, end - kPrefix);
}

absl::Status ReadProgress(Session& session, int64_t job_id, v1::Job* job) {
  auto stages = session.db.Query(
      "SELECT stage, units, done_units, total_rows, done_rows FROM stages WHERE job_id = ?"
      " ORDER BY stage",
      job_id);
  v1::Progress& progress = *job->mutable_progress();
  progress.set_remaining_seconds(-1);
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, stages->Step());
    if (!row) return absl::OkStatus();
    progress.set_total_units(progress.total_units() + stages->Int(1));
    progress.set_done_units(progress.done_units() + stages->Int(2));
    progress.set_total_rows(progress.total_rows() + stages->Int(3));
    progress.set_done_rows(progress.done_rows() + stages->Int(4));
    const bool at_work = stages->Int(2) < stages->Int(1) && job->state() != v1::Job::QUEUED &&
                         !IsTerminal(job->state());
    if (at_work) progress.set_stage(std::string(StageName(static_cast<Stage>(stages->Int(0)))));
  }
}

absl::StatusOr<v1::Job> JobFromRow(Session& session, const Statement& row) {
  v1::Job job;
  HC_RETURN_IF_ERROR(row.Parse(16, "job spec", &job));
  job.set_name(row.Text(0));
  job.set_uid(row.Text(1));
  job.set_owner(row.Text(2));
  job.set_parent(row.Text(3));
  job.set_priority(static_cast<int32_t>(row.Int(4)));
  job.set_state(static_cast<v1::Job::State>(row.Int(5)));
  job.set_state_reason(row.Text(6));
  job.set_etag(Etag(row.Int(7)));
  job.set_attempt(static_cast<int32_t>(row.Int(8)));
  job.set_failures(static_cast<int32_t>(row.Int(17)));
  *job.mutable_create_time() = TimeUtil::NanosecondsToTimestamp(row.Int(9));
  if (row.Int(10) != 0) *job.mutable_start_time() = TimeUtil::NanosecondsToTimestamp(row.Int(10));
  if (row.Int(11) != 0) *job.mutable_end_time() = TimeUtil::NanosecondsToTimestamp(row.Int(11));
  *job.mutable_update_time() = TimeUtil::NanosecondsToTimestamp(row.Int(12));
  if (row.Int(13) != 0) *job.mutable_expire_time() = TimeUtil::NanosecondsToTimestamp(row.Int(13));
  google::rpc::Status error;
  HC_RETURN_IF_ERROR(row.Parse(14, "job error", &error));
  if (error.code() != 0) *job.mutable_error() = error;
  v1::Provenance provenance;
  HC_RETURN_IF_ERROR(row.Parse(15, "provenance", &provenance));
  if (provenance.ByteSizeLong() > 0) *job.mutable_provenance() = provenance;
  HC_RETURN_IF_ERROR(ReadProgress(session, row.Int(18), &job));
  HC_RETURN_IF_ERROR(ReadReuse(session, row.Int(18), &job));
  return job;
}

// The job that the request id made, if it was used.
absl::StatusOr<std::optional<v1::Job>> FindRequest(Session& session, const NewJob& job) {
  if (job.request_id.empty()) return std::nullopt;
  auto used =
      session.db.Query("SELECT body_digest, job FROM requests WHERE owner = ? AND request_id = ?",
                       job.job.owner(), job.request_id);
  HC_ASSIGN_OR_RETURN(const bool row, used->Step());
  if (!row) return std::nullopt;
  const std::string name = used->Text(1);
  if (used->Text(0) != job.body_digest) {
    return WithReason(absl::AlreadyExistsError(
                          absl::StrCat("request_id: used before with another body, for ", name)),
                      "REQUEST_ID_REUSED");
  }
  auto found = GetJob(session, name);
  if (absl::IsNotFound(found.status())) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("request_id: its job ", name, " has been deleted")),
        "JOB_DELETED");
  }
  HC_RETURN_IF_ERROR(found.status());
  return *std::move(found);
}

absl::Status CheckNameIsNew(Session& session, const std::string& name) {
  auto taken = session.db.Query(
      "SELECT 1 FROM jobs WHERE name = ? UNION ALL SELECT 1 FROM deleted_jobs WHERE name = ?", name,
      name);
  HC_ASSIGN_OR_RETURN(const bool row, taken->Step());
  if (!row) return absl::OkStatus();
  return WithReason(absl::AlreadyExistsError(absl::StrCat("there is or was a job ", name)),
                    "NAME_TAKEN");
}

// The place in the list of a job that is there or has been deleted.
absl::StatusOr<int64_t> PlaceOf(Session& session, const std::string& name) {
  auto place = session.db.Query(
      "SELECT id FROM jobs WHERE name = ? UNION ALL SELECT id FROM deleted_jobs WHERE name = ?",
      name, name);
  HC_ASSIGN_OR_RETURN(const bool row, place->Step());
  if (!row) return InvalidField("page_token", name, "names no job", "INVALID_PAGE_TOKEN");
  return place->Int(0);
}

}  // namespace

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

bool IsRunnable(v1::Job::State state) {
  return state == v1::Job::QUEUED || state == v1::Job::STARTING || state == v1::Job::RUNNING;
}

absl::Status NoSuchJob(std::string_view name) {
  return WithReason(absl::NotFoundError(absl::StrCat("no job ", View(name.substr(0, 200)))),
                    "JOB_NOT_FOUND");
}

absl::StatusOr<JobRow> FindJob(Session& session, const std::string& name) {
  auto found = session.db.Query(
      "SELECT id, state, revision, attempt, last_sequence FROM jobs WHERE name = ?", name);
  HC_ASSIGN_OR_RETURN(const bool row, found->Step());
  if (!row) return NoSuchJob(name);
  return JobRow{.id = found->Int(0),
                .name = name,
                .state = static_cast<v1::Job::State>(found->Int(1)),
                .revision = found->Int(2),
                .attempt = static_cast<int>(found->Int(3)),
                .last_sequence = found->Int(4)};
}

absl::StatusOr<CreatedJob> CreateJob(Session& session, const NewJob& job, int64_t max_open_jobs) {
  HC_ASSIGN_OR_RETURN(std::optional<v1::Job> before, FindRequest(session, job));
  if (before.has_value()) return CreatedJob{*std::move(before), false};
  HC_RETURN_IF_ERROR(CheckNameIsNew(session, job.job.name()));
  HC_ASSIGN_OR_RETURN(const int64_t open,
                      session.db.ReadInt("SELECT count(*) FROM jobs WHERE state < 6"));
  if (open >= max_open_jobs) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", open,
                                                  " jobs are open, the limit is ", max_open_jobs)),
        "QUEUE_FULL");
  }

  const int64_t expire =
      job.job.has_expire_time() ? TimeUtil::TimestampToNanoseconds(job.job.expire_time()) : 0;
  HC_RETURN_IF_ERROR(session.db.Run(
      "INSERT INTO jobs (name, project, uid, owner, parent, model, priority, state, state_reason,"
      " revision, attempt, last_sequence, create_time, start_time, end_time, update_time,"
      " expire_time, error, provenance)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', 1, 0, 0, ?, 0, 0, ?, ?, x'', x'')",
      job.job.name(), ProjectOf(job.job.name()), job.job.uid(), job.job.owner(), job.job.parent(),
      format::WorkloadOf(job.job).model(), job.job.priority(), static_cast<int>(v1::Job::QUEUED),
      session.wall, session.wall, expire));
  JobRow row{.id = session.db.LastRowId(),
             .name = job.job.name(),
             .state = v1::Job::QUEUED,
             .revision = 1};

  v1::Job spec = job.job;  // what has columns of its own is not kept twice
  for (int field : {1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 40, 41, 42})
    spec.GetReflection()->ClearField(&spec, spec.GetDescriptor()->FindFieldByNumber(field));
  HC_RETURN_IF_ERROR(session.db.Run("INSERT INTO job_specs (job_id, spec) VALUES (?, ?)", row.id,
                                    Blob{spec.SerializeAsString()}));
  for (const auto& [key, value] : job.job.labels()) {
    HC_RETURN_IF_ERROR(session.db.Run(
        "INSERT INTO job_labels (job_id, key, value) VALUES (?, ?, ?)", row.id, key, value));
  }
  if (!job.request_id.empty()) {
    HC_RETURN_IF_ERROR(session.db.Run(
        "INSERT INTO requests (owner, request_id, body_digest, job) VALUES (?, ?, ?, ?)",
        job.job.owner(), job.request_id, job.body_digest, row.name));
  }
  v1::JobEvent event;
  event.mutable_state_changed()->set_to(v1::Job::QUEUED);
  HC_RETURN_IF_ERROR(WriteEvent(session, row, std::move(event)).status());
  HC_ASSIGN_OR_RETURN(v1::Job stored, GetJob(session, row.name));
  return CreatedJob{std::move(stored), true};
}

absl::StatusOr<v1::Job> GetJob(Session& session, const std::string& name) {
  auto found = session.db.Query(absl::StrCat(kJobColumns, "WHERE j.name = ?"), name);
  HC_ASSIGN_OR_RETURN(const bool row, found->Step());
  if (!row) return NoSuchJob(name);
  return JobFromRow(session, *found);
}

absl::StatusOr<JobPage> ListJobs(Session& session, const ListFilter& filter,
                                 const std::string& after, int page_size) {
  // The texts of the statement are few whatever a client sends: each is kept prepared.
  std::string sql = absl::StrCat(kJobColumns, "WHERE j.project = ? AND (? >> j.state) & 1");
  const v1::JobFilter& by = filter.filter;
  if (by.labels_size() > kMostLabels) return JobPage();    // no job has so many
  int64_t states = by.states().empty() ? ~int64_t{0} : 0;  // bit s: state s
  for (int state : by.states()) {
    if (state >= 0 && state < 63) states |= int64_t{1} << state;
  }
  if (!after.empty()) absl::StrAppend(&sql, " AND j.id < ?");
  if (!by.owner().empty()) absl::StrAppend(&sql, " AND j.owner = ?");
  for (int i = 0; i < static_cast<int>(by.labels_size()); ++i) {
    absl::StrAppend(&sql,
                    " AND EXISTS (SELECT 1 FROM job_labels WHERE job_id = j.id AND key = ? AND"
                    " value = ?)");
  }
  absl::StrAppend(&sql, " ORDER BY j.id DESC LIMIT ?");

  auto rows = session.db.Query(sql, filter.project, states);
  if (!after.empty()) {
    HC_ASSIGN_OR_RETURN(const int64_t place, PlaceOf(session, after));
    rows->Bind(place);
  }
  if (!by.owner().empty()) rows->Bind(by.owner());
  for (const auto& [key, value] : by.labels()) {
    rows->Bind(key);
    rows->Bind(value);
  }
  rows->Bind(int64_t{page_size} + 1);  // one more tells whether there is a next page
  JobPage page;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return page;
    if (static_cast<int>(page.jobs.size()) == page_size) {
      page.more = true;
      return page;
    }
    HC_ASSIGN_OR_RETURN(v1::Job job, JobFromRow(session, *rows));
    page.jobs.push_back(std::move(job));
  }
}

absl::Status ChangeState(Session& session, JobRow& job, v1::Job::State to,
                         const std::string& reason, const google::rpc::Status* error) {
  const bool starts = to == v1::Job::STARTING || to == v1::Job::RUNNING;
  HC_RETURN_IF_ERROR(session.db.Run(
      "UPDATE jobs SET state = ?, state_reason = ?, revision = revision + 1,"
      " start_time = iif(? AND start_time = 0, ?, start_time), end_time = iif(?, ?, end_time),"
      " error = ? WHERE id = ?",
      static_cast<int>(to), reason, starts ? 1 : 0, session.wall, IsTerminal(to) ? 1 : 0,
      session.wall, Blob{error == nullptr ? std::string() : error->SerializeAsString()}, job.id));
  v1::JobEvent event;
  event.mutable_state_changed()->set_from(job.state);
  event.mutable_state_changed()->set_to(to);
  event.mutable_state_changed()->set_reason(reason);
  if (error != nullptr) *event.mutable_state_changed()->mutable_error() = *error;
  job.state = to;
  ++job.revision;
  return WriteEvent(session, job, std::move(event)).status();
}

absl::StatusOr<v1::Job> UpdateState(Session& session, const StateChange& change) {
  HC_ASSIGN_OR_RETURN(JobRow job, FindJob(session, change.job));
  HC_RETURN_IF_ERROR(CheckEtag(job, change.etag));
  bool allowed = false;
  for (v1::Job::State from : change.from) allowed = allowed || from == job.state;
  if (!allowed) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(job.name, " is ", v1::Job::State_Name(job.state),
                                       ": it cannot become ", v1::Job::State_Name(change.to))),
                      IsTerminal(job.state) ? "JOB_TERMINAL" : "JOB_STATE");
  }
  if (job.state != change.to) {
    if (IsTerminal(change.to)) HC_RETURN_IF_ERROR(ReleaseAll(session, job));
    HC_RETURN_IF_ERROR(ChangeState(session, job, change.to, change.reason,
                                   change.error.has_value() ? &*change.error : nullptr));
  }
  return GetJob(session, job.name);
}

absl::Status SetProvenance(Session& session, const std::string& name,
                           const v1::Provenance& provenance) {
  auto found = session.db.Query("SELECT id, provenance FROM jobs WHERE name = ?", name);
  HC_ASSIGN_OR_RETURN(const bool row, found->Step());
  if (!row) return NoSuchJob(name);
  v1::Provenance merged;
  HC_RETURN_IF_ERROR(found->Parse(1, "provenance", &merged));
  const std::string before = merged.SerializeAsString();
  merged.MergeFrom(provenance);
  const std::string after = merged.SerializeAsString();
  if (after == before) return absl::OkStatus();
  return session.db.Run(
      "UPDATE jobs SET provenance = ?, revision = revision + 1, update_time = ? WHERE id = ?",
      Blob{after}, session.wall, found->Int(0));
}

absl::Status DeleteJob(Session& session, const std::string& name, const std::string& etag) {
  HC_ASSIGN_OR_RETURN(const JobRow job, FindJob(session, name));
  HC_RETURN_IF_ERROR(CheckEtag(job, etag));
  if (!IsTerminal(job.state)) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          name, " is ", v1::Job::State_Name(job.state),
                          ": only a job that has ended can be deleted; cancel it first")),
                      "JOB_NOT_TERMINAL");
  }
  HC_RETURN_IF_ERROR(
      session.db.Run("INSERT INTO deleted_jobs (name, id) VALUES (?, ?)", name, job.id));
  HC_RETURN_IF_ERROR(session.db.Run("DELETE FROM jobs WHERE id = ?", job.id));
  // A key must not outlive the file it leads to.
  HC_RETURN_IF_ERROR(
      session.db.Run("DELETE FROM manifest_keys WHERE digest NOT IN (SELECT digest FROM chunks)"
                     " AND digest NOT IN (SELECT manifest_digest FROM stages)"));
  return ForgetRows(session);
}

absl::StatusOr<std::vector<std::string>> OpenJobs(Session& session) {
  auto rows = session.db.Query("SELECT name FROM jobs WHERE state < 6 ORDER BY id");
  std::vector<std::string> names;
  while (true) {
    HC_ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return names;
    names.push_back(rows->Text(0));
  }
}

}  // namespace headcount::store::sqlite
