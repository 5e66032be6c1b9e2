// See user_score.h.

#include "common/catalog/user_score.h"

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace headcount::catalog {
namespace {

constexpr size_t kLongestName = 40;

bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kLongestName || name[0] < 'a' || name[0] > 'z') return false;
  for (char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Score>> MakeUserScore(std::string_view name,
                                                           std::string_view expression,
                                                           Inactive inactive,
                                                           const std::string& path) {
  if (!IsName(name)) {
    return InvalidField(path + ".name", name.substr(0, 100),
                        "must be 1 to 40 of [a-z0-9_] and begin with a letter");
  }
  for (const Score& known : Scores()) {
    if (known.id == name || known.alias == name) {
      return InvalidField(path + ".name", name, "is the name of a score of this server");
    }
  }
  absl::StatusOr<Expression> parsed = Expression::Parse(expression);
  if (!parsed.ok()) {
    return InvalidField(path + ".expression", expression.substr(0, 200),
                        std::string(parsed.status().message()));
  }
  if (parsed->measurements() == 0) {
    return InvalidField(path + ".expression", expression.substr(0, 200),
                        "must use a measurement: this is the same for all heads");
  }
  auto score = std::make_shared<Score>();
  score->id = std::string(name);
  score->formula = std::string(expression);
  score->unit = "of the user's own";
  score->inactive = inactive;
  score->expression = *std::move(parsed);
  return score;
}

}  // namespace headcount::catalog
