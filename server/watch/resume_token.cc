// See resume_token.h.

#include "server/watch/resume_token.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace headcount::server {
namespace {

constexpr std::string_view kVersion = "1:";
constexpr size_t kLongestToken = 200;

absl::Status Expired(const std::string& message) {
  return WithField(
      WithReason(absl::OutOfRangeError("resume_token: " + message), "RESUME_TOKEN_EXPIRED"),
      "resume_token");
}

}  // namespace

std::string MakeResumeToken(const std::string& job_uid, int64_t sequence) {
  return absl::StrCat("1:", job_uid, ":", sequence);
}

absl::StatusOr<int64_t> ParseResumeToken(const std::string& token, const std::string& job_uid,
                                         int64_t last_sequence) {
  if (token.empty()) return 0;
  const size_t colon = token.rfind(':');
  int64_t sequence = -1;
  const char* end = token.data() + token.size();
  if (token.size() > kLongestToken || !token.starts_with(kVersion) || colon < kVersion.size() ||
      std::from_chars(token.data() + colon + 1, end, sequence).ptr != end || sequence < 0 ||
      colon + 1 == token.size()) {
    return InvalidField("resume_token", token, "must come from an event of this job");
  }
  if (token.substr(kVersion.size(), colon - kVersion.size()) != job_uid) {
    return Expired("it belongs to another job; watch without one");
  }
  if (sequence > last_sequence) {
    return Expired(absl::StrCat("it is after event ", sequence, ", this job has ", last_sequence));
  }
  return sequence;
}

}  // namespace headcount::server
