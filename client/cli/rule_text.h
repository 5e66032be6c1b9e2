// The text form of a rule, as `submit ablate --rule` takes it:
//
//   output_norm_ln<0.7          threshold by value; the sign must be the score's inactive side
//   output_norm_ln<0.6,0.7,0.7  one value a layer
//   output_norm_ln@0.15         the value that makes 15 % of the heads of --score-job inactive
//   output_norm_ln:top=2        the 2 most inactive heads of each layer
//   heads=0.3,4.7               fixed query heads, layer.head
//   heads=@mask.npy             those that the file's matrix marks, see mask_file.h
//   random=0.1 or random=0.1,seed=3
//   weak and not sink           rule algebra over rules that have names
//   static_heads(JOB:2)         the heads that rule 2 of that job changed most often, for every
//   sample shuffled(JOB:2)             another document's mask under that rule; ,seed=N may follow
//   random_in_layer(weak)       as many heads as rule `weak` has, at random; ,seed=N may follow
//   weak := entropy:top=2       any of these, with a name
//
// and of what inactive heads become, as `--intervention` takes it: zero, first_value, scale=A or
// mean=JOB.
//
// Pure, but for files of masks. Errors: INVALID_ARGUMENT with the text and what is allowed.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::cli {

// `job_name` makes a job's full name from what the user wrote.
using JobName = std::function<std::string(const std::string&)>;

// `user_scores` are what may be named beside the scores of the table.
absl::StatusOr<v1::Rule> ParseRule(std::string_view text, const std::string& score_job,
                                   const JobName& job_name = {},
                                   std::span<const v1::UserScore> user_scores = {});

// A score of the user's own, as `--user-score` takes it: NAME = EXPRESSION, below (or above: the
// side on which a head is inactive). The server checks the expression.
absl::StatusOr<v1::UserScore> ParseUserScore(std::string_view text);
inline constexpr const char* kUserScoreHelp =
    "a score of your own: 'NAME = EXPRESSION, below' (or above: where a head is inactive), over "
    "the "
    "measurements of headcount scores; may be repeated";

absl::StatusOr<v1::Intervention> ParseIntervention(std::string_view text,
                                                   const JobName& job_name = {});

// "0-3,7" -> 0 1 2 3 7.
absl::StatusOr<std::vector<int>> ParseIntegers(std::string_view field, std::string_view text);

}  // namespace headcount::cli
