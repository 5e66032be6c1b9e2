// See score_reader.h.

#include "server/results/score_reader.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/results/slabs.h"

namespace headcount::results {
namespace {

std::string Where(const std::string& job, const store::ChunkRecord& chunk) {
  return absl::StrCat(job, ", score unit ", chunk.unit);
}

}  // namespace

absl::StatusOr<ScoreReader> ScoreReader::Open(store::JobStore& jobs,
                                              store::ArtifactStore& artifacts,
                                              const JobResults& results,
                                              std::vector<const catalog::Expression*> expressions) {
  HC_ASSIGN_OR_RETURN(const store::StageRecord stage, ScoreStage(results));
  ScoreReader reader;
  reader.artifacts_ = &artifacts;
  reader.job_ = results.job.name();
  reader.expressions_ = std::move(expressions);
  ChunkCursor cursor(jobs, reader.job_, store::Stage::kScore, 0, stage.units);
  while (true) {
    HC_ASSIGN_OR_RETURN(std::optional<store::ChunkRecord> chunk, cursor.Next());
    if (!chunk) break;
    if (chunk->unit >= stage.plan.sample_blocks_size()) {
      return absl::DataLossError(
          absl::StrCat(Where(reader.job_, *chunk), " lies beyond the stage's plan"));
    }
    reader.stored_samples_ += stage.plan.sample_blocks(static_cast<int>(chunk->unit)).samples();
    reader.chunks_.push_back(*std::move(chunk));
  }
  if (reader.chunks_.empty()) return ResultsNotReady(reader.job_, "scores");
  reader.complete_ = static_cast<int64_t>(reader.chunks_.size()) == stage.units;
  v1::ScoreChunk first;
  HC_RETURN_IF_ERROR(ReadChunk(artifacts, reader.job_, reader.chunks_.front(),
                               format::FrameKind::kScoreChunk, &first));
  if (first.layers() < 1 || first.heads() < 1) {
    return absl::DataLossError(absl::StrCat(Where(reader.job_, reader.chunks_.front()), ": ",
                                            first.layers(), " layers x ", first.heads(), " heads"));
  }
  reader.layers_ = first.layers();
  reader.heads_ = first.heads();
  reader.dtype_ = first.run().dtype();
  return reader;
}

absl::Status ScoreReader::ForEachSample(const std::function<void(const Sample&)>& visit) {
  for (const store::ChunkRecord& record : chunks_) {
    v1::ScoreChunk chunk;
    HC_RETURN_IF_ERROR(
        ReadChunk(*artifacts_, job_, record, format::FrameKind::kScoreChunk, &chunk));
    if (chunk.layers() != layers_ || chunk.heads() != heads_) {
      return absl::DataLossError(absl::StrCat(Where(job_, record), " has ", chunk.layers(), " x ",
                                              chunk.heads(), " layers x heads, earlier units have ",
                                              layers_, " x ", heads_));
    }
    HC_ASSIGN_OR_RETURN(SlabRows rows, SlabRows::Open(chunk.slabs(), chunk.samples(), layers_,
                                                      heads_, expressions_, Where(job_, record)));
    for (int i = 0; i < chunk.samples(); ++i) {
      const bool finite = i >= chunk.results_size() || !chunk.results(i).non_finite();
      visit({chunk.first_sample() + i, finite, rows.ScoresOf(i)});
    }
  }
  return absl::OkStatus();
}

}  // namespace headcount::results
