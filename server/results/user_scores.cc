// See user_scores.h.

#include "server/results/user_scores.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/user_score.h"

namespace headcount::results {

absl::StatusOr<std::shared_ptr<const catalog::Score>> UserScoreOf(const v1::UserScore& score,
                                                                  const std::string& path) {
  if (score.inactive() != v1::UserScore::BELOW && score.inactive() != v1::UserScore::ABOVE) {
    return InvalidField(path + ".inactive", absl::StrCat(score.inactive()),
                        "must be BELOW or ABOVE");
  }
  return catalog::MakeUserScore(score.name(), score.expression(),
                                score.inactive() == v1::UserScore::BELOW
                                    ? catalog::Inactive::kBelow
                                    : catalog::Inactive::kAbove,
                                path);
}

absl::StatusOr<std::vector<std::shared_ptr<const catalog::Score>>> UserScoresOf(
    const google::protobuf::RepeatedPtrField<v1::UserScore>& scores, const std::string& path) {
  if (scores.size() > kMaxUserScores) {
    return InvalidField(path, absl::StrCat(scores.size()),
                        absl::StrCat("must be at most ", kMaxUserScores));
  }
  std::vector<std::shared_ptr<const catalog::Score>> out;
  std::set<std::string> names;
  for (int i = 0; i < scores.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    HC_ASSIGN_OR_RETURN(auto score, UserScoreOf(scores[i], at));
    if (!names.insert(score->id).second) {
      return InvalidField(at + ".name", score->id, "is the name of a score before it");
    }
    out.push_back(std::move(score));
  }
  return out;
}

}  // namespace headcount::results
