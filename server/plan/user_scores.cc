// See user_scores.h.

#include "server/plan/user_scores.h"

#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/user_scores.h"

namespace headcount::plan {
absl::StatusOr<UserScores> UserScores::Make(
    const google::protobuf::RepeatedPtrField<v1::UserScore>& scores, const std::string& path) {
  UserScores out;
  HC_ASSIGN_OR_RETURN(auto made, results::UserScoresOf(scores, path));
  for (int i = 0; i < scores.size(); ++i) {
    out.entries_.push_back({scores[i], std::move(made[static_cast<size_t>(i)])});
  }
  return out;
}

absl::StatusOr<const catalog::Score*> UserScores::Find(const std::string& name,
                                                       const std::string& path) const {
  for (const Entry& entry : entries_) {
    if (entry.score->id == name) return entry.score.get();
  }
  if (name.empty()) return InvalidField(path, "", "is required");
  if (name == "gradient") {
    return InvalidField(path, name,
                        "needs the gold continuation's loss and a backward pass: a rule decides in "
                        "the forward pass");
  }
  absl::StatusOr<const catalog::Score*> found = catalog::FindScore(name);
  if (found.ok()) return found;
  return WithField(Annotate(found.status(), path), path);
}

const v1::UserScore* UserScores::DefinitionOf(const catalog::Score& score) const {
  for (const Entry& entry : entries_) {
    if (entry.score.get() == &score) return &entry.definition;
  }
  return nullptr;
}

void UserScores::Set(const catalog::Score& score, v1::ResolvedThreshold* threshold) const {
  if (const v1::UserScore* definition = DefinitionOf(score)) {
    *threshold->mutable_user_score() = *definition;
  } else {
    threshold->set_score(score.id);
  }
}

void UserScores::Set(const catalog::Score& score, v1::ResolvedTopK* top_k) const {
  if (const v1::UserScore* definition = DefinitionOf(score)) {
    *top_k->mutable_user_score() = *definition;
  } else {
    top_k->set_score(score.id);
  }
}

}  // namespace headcount::plan
