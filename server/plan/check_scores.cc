// The scores and shares of a job that has curves. See spec_checks.h.

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/plan/spec_checks.h"

namespace headcount::plan {

absl::StatusOr<int> CheckFractions(const google::protobuf::RepeatedField<double>& fractions,
                                   const std::string& field) {
  constexpr int kDefaultFractions = 6;
  if (fractions.empty()) return kDefaultFractions;
  if (fractions.size() > kMaxFractions) {
    return InvalidField(field, std::to_string(fractions.size()),
                        absl::StrCat("must be at most ", kMaxFractions));
  }
  int run = 0;
  for (int i = 0; i < fractions.size(); ++i) {
    const std::string path = absl::StrCat(field, "[", i, "]");
    HC_RETURN_IF_ERROR(CheckShare(fractions[i], path));
    if (i > 0 && fractions[i] <= fractions[i - 1]) {
      return InvalidField(path, absl::StrCat(fractions[i]),
                          absl::StrCat("must be above the one before it, ", fractions[i - 1]));
    }
    if (fractions[i] > 0) ++run;
  }
  if (run == 0) return InvalidField(field, "0", "must hold at least one fraction above 0");
  return run;
}

absl::Status CheckScores(const google::protobuf::RepeatedPtrField<std::string>& scores,
                         const std::string& field, const UserScores& known) {
  if (scores.empty()) return InvalidField(field, "", "must name at least one score");
  std::set<const catalog::Score*> seen;
  for (int i = 0; i < scores.size(); ++i) {
    const std::string path = absl::StrCat(field, "[", i, "]");
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, known.Find(scores[i], path));
    if (!seen.insert(score).second) {
      return InvalidField(path, scores[i], "names a score that is in the list already");
    }
  }
  return absl::OkStatus();
}

}  // namespace headcount::plan
