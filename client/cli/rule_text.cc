// See rule_text.h.

#include "client/cli/rule_text.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"

namespace headcount::cli {
namespace {

absl::StatusOr<double> Number(std::string_view rule, std::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(std::string(text), &value)) {
    return InvalidField("--rule", rule, "\"" + std::string(text) + "\" is not a number");
  }
  return value;
}

absl::StatusOr<v1::Rule> FixedHeads(std::string_view rule, std::string_view list) {
  v1::Rule out;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(std::string(list), ','))) {
    const std::vector<std::string> parts = absl::StrSplit(item, '.');
    int layer = 0, head = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &layer) ||
        !absl::SimpleAtoi(parts[1], &head)) {
      return InvalidField("--rule", rule, "heads are written layer.head, with commas between them");
    }
    v1::Head* added = out.mutable_fixed_heads()->add_heads();
    added->set_layer(layer);
    added->set_head(head);
  }
  return out;
}

absl::StatusOr<v1::Rule> Random(std::string_view rule, std::string_view text) {
  v1::Rule out;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  HC_ASSIGN_OR_RETURN(const double p, Number(rule, parts[0]));
  out.mutable_random()->set_p(p);
  if (parts.size() > 1) {
    uint64_t seed = 0;
    if (parts.size() > 2 || parts[1].rfind("seed=", 0) != 0 ||
        !absl::SimpleAtoi(parts[1].substr(5), &seed)) {
      return InvalidField("--rule", rule, "random is written random=P or random=P,seed=N");
    }
    out.mutable_random()->set_seed(seed);
  }
  return out;
}

}  // namespace

absl::StatusOr<v1::Rule> ParseRule(std::string_view text, const std::string& score_job) {
  if (text.rfind("heads=", 0) == 0) return FixedHeads(text, text.substr(6));
  if (text.rfind("random=", 0) == 0) return Random(text, text.substr(7));

  const size_t at = text.find_first_of("<>@:");
  if (at == std::string_view::npos) {
    return InvalidField(
        "--rule", text,
        "must be SCORE<VALUE, SCORE>VALUE, SCORE@FRACTION, SCORE:top=K, heads=L.H,... or random=P");
  }
  HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(text.substr(0, at)));
  v1::Rule out;
  v1::Threshold* threshold = out.mutable_threshold();
  threshold->set_score(score->id);
  const std::string_view rest = text.substr(at + 1);
  if (text[at] == ':') {
    int k = 0;
    if (rest.rfind("top=", 0) != 0 || !absl::SimpleAtoi(std::string(rest.substr(4)), &k)) {
      return InvalidField("--rule", text, "after ':' only top=K is known");
    }
    threshold->set_top_k(k);
    return out;
  }
  HC_ASSIGN_OR_RETURN(const double value, Number(text, rest));
  if (text[at] == '@') {
    if (score_job.empty())
      return InvalidField("--rule", text,
                          "a fraction needs --score-job, the job whose scores it is taken from");
    threshold->set_fraction(value);
    threshold->set_score_job(score_job);
    return out;
  }
  const char inactive = score->inactive == catalog::Inactive::kBelow ? '<' : '>';
  if (text[at] != inactive) {
    return InvalidField("--rule", text,
                        score->id + " is inactive on its '" + inactive + "' side; write " +
                            score->id + inactive + "VALUE");
  }
  threshold->set_value(value);
  return out;
}

absl::StatusOr<std::vector<int>> ParseIntegers(std::string_view field, std::string_view text) {
  std::vector<int> out;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    const std::vector<std::string> ends = absl::StrSplit(item, '-');
    int first = 0, last = 0;
    const bool ok = absl::SimpleAtoi(ends[0], &first) && ends.size() <= 2 &&
                    (ends.size() == 1 ? (last = first, true) : absl::SimpleAtoi(ends[1], &last)) &&
                    last >= first && last - first < 10'000;
    if (!ok) return InvalidField(field, text, "must be numbers and ranges, like 0-3,7");
    for (int i = first; i <= last; ++i) out.push_back(i);
  }
  return out;
}

}  // namespace headcount::cli
