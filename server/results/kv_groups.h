// KV groups of which every query head is inactive at a threshold: their keys and values are read by
// nobody. Counted in one pass over a job's stored (unablated) scores, with what they cost in memory
// and arithmetic.
//
// Called by thresholds.cc. Not thread-safe; errors: those of ScoreReader, DATA_LOSS of the
// manifest.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/catalog/model_config.h"
#include "common/catalog/scores.h"
#include "headcount/v1/result_service.pb.h"
#include "headcount/v1/storage.pb.h"
#include "server/results/score_reader.h"

namespace headcount::results {

// A group counts as always inactive when it is on so many of the samples.
inline constexpr double kAlwaysShare = 0.95;

// Keys that a query sees, on average over all tokens of the manifest's samples.
double MeanKeys(const v1::Manifest& manifest);

// What `groups` KV groups of a layer cost.
v1::KvCost CostOf(double groups, const catalog::ModelConfig& model, int element_bytes,
                  double mean_keys);

// Fills `kv_groups` of every point of `tables`, one a score and in the order of the reader's
// expressions. `layers` are flags of the layers that may be inactive; empty: all. The reader's
// heads are the model's.
absl::Status AddKvGroups(ScoreReader& reader, std::span<const catalog::Score* const> scores,
                         std::span<const uint8_t> layers, const catalog::ModelConfig& model,
                         double mean_keys, std::span<v1::ThresholdTable* const> tables);

}  // namespace headcount::results
