// Judges the generated texts of one manifest by its metrics, in their order. Everything that shows
// an answer or counts one as right comes through here, as log-likelihoods come through decide.h.
// Immutable, thread-safe. Errors: those of common/tasks/answers.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tasks/answers.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::results {

class AnswerJudges {
 public:
  static absl::StatusOr<AnswerJudges> Make(const v1::Manifest& manifest);

  absl::StatusOr<std::vector<tasks::Answer>> Judge(const std::string& text,
                                                   const std::string& gold) const;

 private:
  AnswerJudges() = default;

  std::vector<tasks::AnswerJudge> judges_;
};

}  // namespace headcount::results
