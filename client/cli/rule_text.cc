// See rule_text.h.

#include "client/cli/rule_text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/mask_file.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"

namespace headcount::cli {
namespace {

absl::StatusOr<double> Number(std::string_view rule, std::string_view text,
                              std::string_view flag = "--rule") {
  double value = 0;
  if (!absl::SimpleAtod(std::string(text), &value)) {
    return InvalidField(flag, rule, "\"" + std::string(text) + "\" is not a number");
  }
  return value;
}

absl::StatusOr<v1::Rule> FixedHeads(std::string_view rule, std::string_view list) {
  v1::Rule out;
  if (list.rfind('@', 0) == 0) {
    HC_ASSIGN_OR_RETURN(*out.mutable_fixed_heads(), ReadMaskFile(std::string(list.substr(1))));
    return out;
  }
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

// ",seed=N" or nothing. `form` is what the whole may look like.
absl::StatusOr<uint64_t> Seed(std::string_view rule, std::string_view text,
                              const std::string& form) {
  constexpr std::string_view kSeed = ",seed=";
  uint64_t seed = 0;
  if (text.empty()) return seed;
  if (text.rfind(kSeed, 0) != 0 ||
      !absl::SimpleAtoi(std::string(text.substr(kSeed.size())), &seed)) {
    return InvalidField("--rule", rule, "is written " + form + " or " + form + ",seed=N");
  }
  return seed;
}

absl::StatusOr<v1::Rule> Random(std::string_view rule, std::string_view text) {
  v1::Rule out;
  const size_t comma = std::min(text.find(','), text.size());
  HC_ASSIGN_OR_RETURN(const double p, Number(rule, text.substr(0, comma)));
  HC_ASSIGN_OR_RETURN(const uint64_t seed, Seed(rule, text.substr(comma), "random=P"));
  out.mutable_random()->set_p(p);
  if (seed != 0) out.mutable_random()->set_seed(seed);
  return out;
}

// "CONTROL(ARGUMENT)REST" -> the argument and the rest, or nothing where it is no such text.
struct Called {
  std::string_view argument;
  std::string_view rest;
};
std::optional<Called> Call(std::string_view text, std::string_view control) {
  if (text.rfind(control, 0) != 0 || text.size() <= control.size() || text[control.size()] != '(') {
    return std::nullopt;
  }
  const size_t begin = control.size() + 1, end = text.find(')', begin);
  if (end == std::string_view::npos) return std::nullopt;
  return Called{text.substr(begin, end - begin), text.substr(end + 1)};
}

bool IsExpression(std::string_view text) {
  const std::string padded = " " + std::string(text) + " ";
  return padded.find(" and ") != std::string::npos || padded.find(" or ") != std::string::npos;
}

// Thresholds: what follows the score, from the character at `at` on.
struct NamedSide {
  std::string id;
  bool below = true;  // inactive
};
absl::StatusOr<NamedSide> FindSide(std::string_view name,
                                   std::span<const v1::UserScore> user_scores) {
  for (const v1::UserScore& score : user_scores) {
    if (score.name() == name) {
      return NamedSide{score.name(), score.inactive() != v1::UserScore::ABOVE};
    }
  }
  HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(name));
  return NamedSide{score->id, score->inactive == catalog::Inactive::kBelow};
}

absl::StatusOr<v1::Rule> ScoreRule(std::string_view text, size_t at, const std::string& score_job,
                                   std::span<const v1::UserScore> user_scores) {
  HC_ASSIGN_OR_RETURN(const NamedSide score, FindSide(text.substr(0, at), user_scores));
  v1::Rule out;
  v1::Threshold* threshold = out.mutable_threshold();
  threshold->set_score(score.id);
  const std::string_view rest = text.substr(at + 1);
  if (text[at] == ':') {
    int k = 0;
    if (rest.rfind("top=", 0) != 0 || !absl::SimpleAtoi(std::string(rest.substr(4)), &k)) {
      return InvalidField("--rule", text, "after ':' only top=K is known");
    }
    threshold->set_top_k(k);
    return out;
  }
  if (text[at] == '@') {
    HC_ASSIGN_OR_RETURN(const double fraction, Number(text, rest));
    if (score_job.empty())
      return InvalidField("--rule", text,
                          "a fraction needs --score-job, the job whose scores it is taken from");
    threshold->set_fraction(fraction);
    threshold->set_score_job(score_job);
    return out;
  }
  const char inactive = score.below ? '<' : '>';
  if (text[at] != inactive) {
    return InvalidField("--rule", text,
                        score.id + " is inactive on its '" + inactive + "' side; write " +
                            score.id + inactive + "VALUE");
  }
  const std::vector<std::string> values = absl::StrSplit(std::string(rest), ',');
  for (const std::string& each : values) {
    HC_ASSIGN_OR_RETURN(const double value, Number(text, each));
    if (values.size() == 1) {
      threshold->set_value(value);
    } else {
      threshold->mutable_layer_values()->add_values(value);
    }
  }
  return out;
}

std::string FullName(const JobName& job_name, std::string_view job) {
  return job_name ? job_name(std::string(job)) : std::string(job);
}

// JOB:RULE.
struct JobRule {
  std::string job;
  int rule = 0;
};
absl::StatusOr<JobRule> RuleOfJob(std::string_view text, std::string_view argument,
                                  const JobName& job_name) {
  const size_t colon = argument.rfind(':');
  JobRule out;
  if (colon == std::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(std::string(argument.substr(colon + 1)), &out.rule)) {
    return InvalidField(
        "--rule", text,
        "needs JOB:RULE, a finished ablate or sweep job and the number of its rule");
  }
  out.job = FullName(job_name, argument.substr(0, colon));
  return out;
}

absl::StatusOr<v1::Rule> Selector(std::string_view text, const std::string& score_job,
                                  const JobName& job_name,
                                  std::span<const v1::UserScore> user_scores) {
  if (text.rfind("heads=", 0) == 0) return FixedHeads(text, text.substr(6));
  if (text.rfind("random=", 0) == 0) return Random(text, text.substr(7));
  if (const auto control = Call(text, "random_in_layer")) {
    v1::Rule out;
    HC_ASSIGN_OR_RETURN(const uint64_t seed, Seed(text, control->rest, "random_in_layer(NAME)"));
    out.mutable_random_in_layer()->set_rule(std::string(control->argument));
    out.mutable_random_in_layer()->set_seed(seed);
    return out;
  }
  if (const auto control = Call(text, "static_heads"); control && control->rest.empty()) {
    v1::Rule out;
    HC_ASSIGN_OR_RETURN(JobRule of, RuleOfJob(text, control->argument, job_name));
    out.mutable_static_heads()->set_job(std::move(of.job));
    out.mutable_static_heads()->set_rule(of.rule);
    return out;
  }
  if (const auto control = Call(text, "shuffled")) {
    v1::Rule out;
    HC_ASSIGN_OR_RETURN(JobRule of, RuleOfJob(text, control->argument, job_name));
    HC_ASSIGN_OR_RETURN(const uint64_t seed, Seed(text, control->rest, "shuffled(JOB:RULE)"));
    out.mutable_shuffled()->set_job(std::move(of.job));
    out.mutable_shuffled()->set_rule(of.rule);
    out.mutable_shuffled()->set_seed(seed);
    return out;
  }
  if (IsExpression(text)) {
    v1::Rule out;
    out.set_expression(std::string(text));
    return out;
  }
  const size_t at = text.find_first_of("<>@:");
  if (at == std::string_view::npos) {
    return InvalidField("--rule", text,
                        "must be SCORE<VALUE, SCORE>VALUE, SCORE@FRACTION, SCORE:top=K, "
                        "heads=L.H,..., random=P, \"NAME and NAME\", \"NAME or NAME\", \"NAME and "
                        "not NAME\", random_in_layer(NAME), static_heads(JOB:RULE) or "
                        "shuffled(JOB:RULE)");
  }
  return ScoreRule(text, at, score_job, user_scores);
}

}  // namespace

absl::StatusOr<v1::Rule> ParseRule(std::string_view text, const std::string& score_job,
                                   const JobName& job_name,
                                   std::span<const v1::UserScore> user_scores) {
  const size_t named = text.find(":=");
  if (named == std::string_view::npos) return Selector(text, score_job, job_name, user_scores);
  const auto strip = [](std::string_view part) {
    return std::string(absl::StripAsciiWhitespace(std::string(part)));
  };
  const std::string name = strip(text.substr(0, named));
  if (name.empty()) return InvalidField("--rule", text, "needs a name before ':='");
  HC_ASSIGN_OR_RETURN(v1::Rule out,
                      Selector(strip(text.substr(named + 2)), score_job, job_name, user_scores));
  out.set_name(name);
  return out;
}

absl::StatusOr<v1::UserScore> ParseUserScore(std::string_view text) {
  const size_t equals = text.find('='), comma = text.rfind(',');
  const auto strip = [&](size_t begin, size_t end) {
    return std::string(absl::StripAsciiWhitespace(std::string(text.substr(begin, end - begin))));
  };
  v1::UserScore out;
  if (equals != std::string_view::npos && comma != std::string_view::npos && comma > equals) {
    const std::string side = strip(comma + 1, text.size());
    out.set_name(strip(0, equals));
    out.set_expression(strip(equals + 1, comma));
    if (side == "below") out.set_inactive(v1::UserScore::BELOW);
    if (side == "above") out.set_inactive(v1::UserScore::ABOVE);
  }
  if (out.inactive() != v1::UserScore::INACTIVE_UNSPECIFIED) return out;
  return InvalidField("--user-score", text,
                      "is written NAME = EXPRESSION, below (or above: where a head is inactive)");
}

absl::StatusOr<v1::Intervention> ParseIntervention(std::string_view text, const JobName& job_name) {
  constexpr std::string_view kFlag = "--intervention", kScale = "scale=", kMean = "mean=";
  v1::Intervention out;
  if (text == "zero") {
    out.set_zero(true);
  } else if (text == "first_value") {
    out.set_first_value(true);
  } else if (text.rfind(kScale, 0) == 0) {
    HC_ASSIGN_OR_RETURN(const double scale, Number(text, text.substr(kScale.size()), kFlag));
    out.set_scale(scale);
  } else if (text == "mean") {
    out.set_mean("");
  } else if (text.rfind(kMean, 0) == 0 && text.size() > kMean.size()) {
    out.set_mean(FullName(job_name, text.substr(kMean.size())));
  } else {
    return InvalidField(kFlag, text,
                        "must be zero, first_value, scale=A, mean=JOB or, in a sweep, mean");
  }
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
