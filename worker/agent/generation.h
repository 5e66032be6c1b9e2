// The units of a stage that continues prompts: from sample and rule ranges to what the engine
// generates, to text that ends where lm-evaluation-harness ends it, to the framed chunk.
//
// Used by the compute thread through task_runner. Pure but for the engine. Errors: those of
// unit_builder.h and of the engine; those of the decoder.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/storage.pb.h"
#include "worker/agent/decoder.h"
#include "worker/agent/sample_source.h"
#include "worker/agent/unit_builder.h"
#include "worker/engine/engine.h"

namespace headcount::agent {

// Where a text ends: before the earliest of the stops.
class StopText {
 public:
  StopText(std::vector<std::string> stops, Decoder decode)
      : stops_(std::move(stops)), decode_(std::move(decode)) {}

  // Whether the new tokens say one of the stops; special tokens count, as they do in the harness.
  bool Ended(std::span<const int32_t> tokens) const;
  // What the new tokens say up to there, without special tokens.
  absl::StatusOr<std::string> Cut(std::span<const int32_t> tokens) const;

 private:
  std::vector<std::string> stops_;
  Decoder decode_;
};

struct GeneratedChunk {
  std::string data;  // framed
  int64_t tokens = 0;
  int64_t rows = 0;
};

// The chunk of an ablate unit whose samples are prompts to continue; samples->generation says how.
// `run` says how it is computed; tokens and back-offs are added.
absl::StatusOr<GeneratedChunk> GenerateUnitChunk(engine::Engine& engine, const Decoder& decode,
                                                 const v1::UnitRange& range,
                                                 const SampleRange& samples,
                                                 std::span<const v1::ResolvedRule> rules,
                                                 std::span<const SharedMeans> means,
                                                 v1::RunInfo run, const engine::CancelFlag& cancel,
                                                 engine::BatchObserver* observer);

}  // namespace headcount::agent
