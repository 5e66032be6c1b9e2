// A job's scores, derived on read from its stored base measurements, sample by sample in unit
// order. The set of chunks is fixed when the reader is opened, so that the passes of a selection
// see the same values while the job goes on. One chunk is in memory at a time.
//
// Slabs the scores do not need are skipped, known or not. Not thread-safe; several readers of one
// job are fine. Errors: those of job_results.h; FAILED_PRECONDITION (MEASUREMENT_NOT_STORED) where
// a chunk lacks a slab that a score needs; DATA_LOSS where a chunk's shape is not that of the
// others or a slab has the wrong size.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/expression.h"
#include "server/results/job_results.h"

namespace headcount::results {

class ScoreReader {
 public:
  // `expressions` are what is evaluated; they must outlive the reader.
  static absl::StatusOr<ScoreReader> Open(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                          const JobResults& results,
                                          std::vector<const catalog::Expression*> expressions);

  int layers() const { return layers_; }
  int heads() const { return heads_; }
  int64_t stored_samples() const { return stored_samples_; }
  bool complete() const { return complete_; }
  // In which the job ran, as RunInfo says it.
  const std::string& dtype() const { return dtype_; }

  struct Sample {
    int64_t index = 0;    // in the manifest
    bool finite = false;  // its run was; what is not leaves every distribution
    // One a requested expression, [layer][head]; valid during the call only.
    std::span<const std::vector<float>> scores;
  };
  // One pass. May be repeated.
  absl::Status ForEachSample(const std::function<void(const Sample&)>& visit);

 private:
  ScoreReader() = default;

  store::ArtifactStore* artifacts_ = nullptr;
  std::string job_;
  std::vector<store::ChunkRecord> chunks_;
  std::vector<const catalog::Expression*> expressions_;
  int layers_ = 0;
  int heads_ = 0;
  int64_t stored_samples_ = 0;
  bool complete_ = false;
  std::string dtype_;
};

}  // namespace headcount::results
