// What is stored of a job's results: its stages with their plans, its manifest, and its chunks in
// unit order. Every reader of results starts here.
//
// A value is a view of the moment it was opened: chunks that are stored later are not seen by
// ScoreReader passes, but may be by a ChunkCursor. Thread-safe as far as the stores are. Errors:
// NOT_FOUND (no such job), FAILED_PRECONDITION (RESULTS_NOT_READY: nothing stored yet; NO_SCORES: a
// job that never stores scores; MADE_OF_JOBS: its results are those of other jobs), DATA_LOSS from
// the stores.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/format/frame.h"
#include "headcount/v1/storage.pb.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::results {

struct JobResults {
  v1::Job job;
  std::optional<store::StageRecord> score;
  std::optional<store::StageRecord> ablate;
  std::string manifest_digest;  // empty before the first stage is planned

  // Every unit of the stages that this kind of job has is stored. Of a frontier, whose stage grows
  // until there is an answer: the job has ended.
  bool complete() const;
};

absl::StatusOr<JobResults> OpenResults(store::JobStore& jobs, const std::string& job);

// The job's score stage; NO_SCORES for a kind that has none, RESULTS_NOT_READY before its first
// unit is stored.
absl::StatusOr<store::StageRecord> ScoreStage(const JobResults& results);

// The job has no such results because it is not of kind `kind`.
absl::Status WrongKind(const v1::Job& job, std::string_view kind);

// OUT_OF_RANGE "field: message (got value)".
absl::Status OutOfRange(std::string_view field, int64_t value, std::string_view message);

absl::Status ResultsNotReady(const std::string& job, std::string_view what);

absl::StatusOr<std::shared_ptr<const v1::Manifest>> ReadManifest(store::ArtifactStore& artifacts,
                                                                 const std::string& digest);

// The stored units of [first_unit, end_unit) of a stage, in order, a page of the store at a time.
class ChunkCursor {
 public:
  ChunkCursor(store::JobStore& jobs, std::string job, store::Stage stage, int64_t first_unit,
              int64_t end_unit);

  // The next stored unit, or nothing after the last.
  absl::StatusOr<std::optional<store::ChunkRecord>> Next();

 private:
  store::JobStore* jobs_;
  std::string job_;
  store::Stage stage_;
  int64_t next_unit_;
  int64_t end_unit_;
  std::vector<store::ChunkRecord> page_;
  size_t at_ = 0;
};

// Fetches a chunk, checks its frame and parses it into `chunk`; errors name job, stage and unit.
absl::Status ReadChunk(store::ArtifactStore& artifacts, const std::string& job,
                       const store::ChunkRecord& record, format::FrameKind kind,
                       google::protobuf::MessageLite* chunk);

}  // namespace headcount::results
