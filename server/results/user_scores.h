// Scores of a user's own from the wire. Pure functions. Errors: INVALID_ARGUMENT naming the field;
// see common/catalog/user_score.h.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/scores.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::results {

inline constexpr int kMaxUserScores = 32;

absl::StatusOr<std::shared_ptr<const catalog::Score>> UserScoreOf(const v1::UserScore& score,
                                                                  const std::string& path);

// At most kMaxUserScores, each name once. `path` is that of the list.
absl::StatusOr<std::vector<std::shared_ptr<const catalog::Score>>> UserScoresOf(
    const google::protobuf::RepeatedPtrField<v1::UserScore>& scores, const std::string& path);

}  // namespace headcount::results
