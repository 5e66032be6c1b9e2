// From what the engine measured to the framed chunk that is stored: equal results have equal bytes.
// Pure functions. INTERNAL when the engine's answer has not the shape that was asked for.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "headcount/v1/storage.pb.h"
#include "worker/agent/decoder.h"
#include "worker/engine/engine.h"

namespace headcount::agent {

// `run` says how the unit was computed; tokens and back-offs are taken from `result`.
absl::StatusOr<std::string> BuildScoreChunk(const v1::UnitRange& range,
                                            const engine::UnitResult& result,
                                            const catalog::ModelConfig& model, v1::RunInfo run);
// What a stage keeps of its rows beside their results.
struct Recording {
  const v1::RowRecord& what;
  const engine::Unit& unit;  // the one that was run
  const Decoder& decode;     // names tokens, where those are kept
};

absl::StatusOr<std::string> BuildAblateChunk(const v1::UnitRange& range,
                                             const engine::UnitResult& result,
                                             const catalog::ModelConfig& model, v1::RunInfo run,
                                             const Recording* recording = nullptr);

// The same from finished rows, each with its mask; `run` is complete.
absl::StatusOr<std::string> BuildAblateChunk(const v1::UnitRange& range,
                                             std::vector<v1::SampleResult> rows,
                                             const catalog::ModelConfig& model, v1::RunInfo run);

}  // namespace headcount::agent
