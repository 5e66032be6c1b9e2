// See score_reader.h.

#include "server/results/score_reader.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/measurements.h"

namespace headcount::results {
namespace {

using SlabPointers = std::array<const v1::Slab*, catalog::kMeasurementCount>;

// The slabs that `needed` (a bit a measurement) names, checked for size.
absl::StatusOr<SlabPointers> FindSlabs(const v1::ScoreChunk& chunk, unsigned needed,
                                       const std::string& where) {
  SlabPointers slabs{};
  for (const v1::Slab& slab : chunk.slabs()) {
    const auto measurement = catalog::FindMeasurement(slab.measurement());
    if (measurement) slabs[static_cast<size_t>(*measurement)] = &slab;
  }
  const size_t bytes = sizeof(float) * static_cast<size_t>(chunk.samples()) *
                       static_cast<size_t>(chunk.layers()) * static_cast<size_t>(chunk.heads());
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    const auto m = static_cast<size_t>(info.measurement);
    if ((needed >> m & 1) == 0) continue;
    if (slabs[m] == nullptr) {
      return WithReason(absl::FailedPreconditionError(
                            absl::StrCat(where, " holds no measurement '", std::string(info.id),
                                         "', which the score is made of")),
                        "MEASUREMENT_NOT_STORED");
    }
    if (slabs[m]->values().size() != bytes) {
      return absl::DataLossError(absl::StrCat(where, ": slab '", std::string(info.id), "' has ",
                                              slabs[m]->values().size(), " bytes, expected ",
                                              bytes));
    }
  }
  return slabs;
}

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
  unsigned needed = 0;
  for (const catalog::Expression* expression : expressions_) needed |= expression->measurements();
  const size_t per_sample = static_cast<size_t>(layers_) * static_cast<size_t>(heads_);
  std::array<std::vector<float>, catalog::kMeasurementCount> values;  // of one sample, aligned
  std::array<const float*, catalog::kMeasurementCount> pointers{};
  for (size_t m = 0; m < values.size(); ++m) {
    if ((needed >> m & 1) == 0) continue;
    values[m].resize(per_sample);
    pointers[m] = values[m].data();
  }
  std::vector<std::vector<float>> scores(expressions_.size(), std::vector<float>(per_sample));
  for (const store::ChunkRecord& record : chunks_) {
    v1::ScoreChunk chunk;
    HC_RETURN_IF_ERROR(
        ReadChunk(*artifacts_, job_, record, format::FrameKind::kScoreChunk, &chunk));
    if (chunk.layers() != layers_ || chunk.heads() != heads_) {
      return absl::DataLossError(absl::StrCat(Where(job_, record), " has ", chunk.layers(), " x ",
                                              chunk.heads(), " layers x heads, earlier units have ",
                                              layers_, " x ", heads_));
    }
    HC_ASSIGN_OR_RETURN(const SlabPointers slabs, FindSlabs(chunk, needed, Where(job_, record)));
    for (int i = 0; i < chunk.samples(); ++i) {
      for (size_t m = 0; m < values.size(); ++m) {
        if (pointers[m] == nullptr) continue;
        std::memcpy(values[m].data(),
                    slabs[m]->values().data() + static_cast<size_t>(i) * per_sample * sizeof(float),
                    per_sample * sizeof(float));
      }
      for (size_t e = 0; e < expressions_.size(); ++e) {
        expressions_[e]->EvaluateLayers(pointers, layers_, heads_, scores[e]);
      }
      const bool finite = i >= chunk.results_size() || !chunk.results(i).non_finite();
      visit({chunk.first_sample() + i, finite, scores});
    }
  }
  return absl::OkStatus();
}

}  // namespace headcount::results
