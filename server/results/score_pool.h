// Which of a job's stored scores make up a distribution. Plain data: planners ask for thresholds of
// a pool, server/results takes them.

#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "headcount/v1/spec.pb.h"

namespace headcount::results {

struct ScorePool {
  std::vector<uint8_t> layers;  // 0 or 1 a layer: those that are pooled; empty: all
  // KV heads of a layer, where the score of a KV group (from those of its query heads) is pooled;
  // 0: scores of query heads are.
  int kv_heads = 0;
  v1::GroupScore group_score = v1::GROUP_SCORE_MEAN;

  auto operator<=>(const ScorePool&) const = default;
};

}  // namespace headcount::results
