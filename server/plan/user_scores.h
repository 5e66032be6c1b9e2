// The scores of a user's own that a job defines, beside those of the table. Immutable. Errors:
// INVALID_ARGUMENT naming the field; see common/catalog/user_score.h.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/scores.h"
#include "headcount/v1/spec.pb.h"
#include "headcount/v1/worker_service.pb.h"

namespace headcount::plan {

class UserScores {
 public:
  UserScores() = default;

  // `path` is that of the list.
  static absl::StatusOr<UserScores> Make(
      const google::protobuf::RepeatedPtrField<v1::UserScore>& scores, const std::string& path);

  // By the user's name, or by id or alias of the table. The error names `path`.
  absl::StatusOr<const catalog::Score*> Find(const std::string& name,
                                             const std::string& path) const;

  // Names `score` in a resolved selection: by id, or with all of its definition.
  void Set(const catalog::Score& score, v1::ResolvedThreshold* threshold) const;
  void Set(const catalog::Score& score, v1::ResolvedTopK* top_k) const;

 private:
  const v1::UserScore* DefinitionOf(const catalog::Score& score) const;

  struct Entry {
    v1::UserScore definition;
    std::shared_ptr<const catalog::Score> score;
  };
  std::vector<Entry> entries_;
};

}  // namespace headcount::plan
