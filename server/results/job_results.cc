// See job_results.h.

#include "server/results/job_results.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"
#include "server/results/child_name.h"
#include "server/results/sweep_children.h"

namespace headcount::results {
namespace {

constexpr int kPage = 256;

bool Complete(const std::optional<store::StageRecord>& stage) {
  return stage.has_value() && stage->done_units == stage->units;
}

}  // namespace

bool JobResults::complete() const {
  switch (job.spec_case()) {
    case v1::Job::kScore:
      return Complete(score);
    case v1::Job::kAblate:
    case v1::Job::kKnockout:
    case v1::Job::kProbe:
      return Complete(ablate);
    case v1::Job::kFrontier:
      return job.state() == v1::Job::SUCCEEDED;
    default:
      return Complete(score) && Complete(ablate);
  }
}

absl::StatusOr<JobResults> OpenResults(store::JobStore& jobs, const std::string& job) {
  JobResults results;
  HC_ASSIGN_OR_RETURN(results.job, jobs.GetJob(job));
  if (results.job.has_compare() || HasChildren(results.job.sweep())) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          job, " is made of other jobs and has no results of its own: ask ",
                          ChildName(job, 0), " and those that follow")),
                      "MADE_OF_JOBS");
  }
  HC_ASSIGN_OR_RETURN(std::vector<store::StageRecord> stages, jobs.ListStages(job));
  for (store::StageRecord& stage : stages) {
    if (stage.stage == store::Stage::kPrepare) continue;
    results.manifest_digest = stage.manifest_digest;
    std::optional<store::StageRecord>& place =
        stage.stage == store::Stage::kScore ? results.score : results.ablate;
    place = std::move(stage);
  }
  return results;
}

absl::StatusOr<store::StageRecord> ScoreStage(const JobResults& results) {
  if (results.job.has_ablate() || results.job.has_knockout() || results.job.has_probe()) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          results.job.name(), " is of kind ", format::JobKind(results.job),
                          " and stores no scores; ask a score job or sweep")),
                      "NO_SCORES");
  }
  if (!results.score.has_value() || results.score->done_units == 0) {
    return ResultsNotReady(results.job.name(), "scores");
  }
  return *results.score;
}

absl::Status WrongKind(const v1::Job& job, std::string_view kind) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(job.name(), " is a ", format::JobKind(job),
                                                 " job, not a ", std::string(kind))),
      "WRONG_KIND");
}

absl::Status OutOfRange(std::string_view field, int64_t value, std::string_view message) {
  return WithField(absl::OutOfRangeError(absl::StrCat(std::string(field), ": ",
                                                      std::string(message), " (got ", value, ")")),
                   field);
}

absl::Status ResultsNotReady(const std::string& job, std::string_view what) {
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat(job, " has no ", std::string(what), " stored yet")),
                    "RESULTS_NOT_READY");
}

absl::StatusOr<std::shared_ptr<const v1::Manifest>> ReadManifest(store::ArtifactStore& artifacts,
                                                                 const std::string& digest) {
  HC_ASSIGN_OR_RETURN(const std::string bytes, artifacts.Get(digest));
  auto manifest = std::make_shared<v1::Manifest>();
  if (absl::Status status = format::Unframe(format::FrameKind::kManifest, bytes, manifest.get());
      !status.ok()) {
    return Annotate(status, absl::StrCat("manifest ", digest));
  }
  return std::shared_ptr<const v1::Manifest>(std::move(manifest));
}

ChunkCursor::ChunkCursor(store::JobStore& jobs, std::string job, store::Stage stage,
                         int64_t first_unit, int64_t end_unit)
    : jobs_(&jobs),
      job_(std::move(job)),
      stage_(stage),
      next_unit_(first_unit),
      end_unit_(end_unit) {}

absl::StatusOr<std::optional<store::ChunkRecord>> ChunkCursor::Next() {
  if (at_ == page_.size()) {
    page_.clear();
    at_ = 0;
    if (next_unit_ >= end_unit_) return std::nullopt;
    HC_ASSIGN_OR_RETURN(page_, jobs_->ListChunks(job_, stage_, next_unit_, kPage));
    if (page_.empty()) next_unit_ = end_unit_;
  }
  if (at_ == page_.size() || page_[at_].unit >= end_unit_) {
    page_.clear();
    at_ = 0;
    next_unit_ = end_unit_;
    return std::nullopt;
  }
  next_unit_ = page_[at_].unit + 1;
  return std::move(page_[at_++]);
}

absl::Status ReadChunk(store::ArtifactStore& artifacts, const std::string& job,
                       const store::ChunkRecord& record, format::FrameKind kind,
                       google::protobuf::MessageLite* chunk) {
  const std::string where =
      absl::StrCat(job, ", ", std::string(store::StageName(record.stage)), " unit ", record.unit);
  absl::StatusOr<std::string> bytes = artifacts.Get(record.digest);
  if (!bytes.ok()) return Annotate(bytes.status(), where);
  return Annotate(format::Unframe(kind, *bytes, chunk), where);
}

}  // namespace headcount::results
