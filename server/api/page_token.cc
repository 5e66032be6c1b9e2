// See page_token.h.

#include "server/api/page_token.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "server/api/resource_names.h"

namespace headcount::server {
namespace {

constexpr size_t kCheckLength = 16;
constexpr size_t kLongestToken = 1000;

std::string CheckOf(const std::string& binding, const std::string& last_job) {
  return Sha256Hex(absl::StrCat(binding, "\n", last_job)).substr(0, kCheckLength);
}

}  // namespace

std::string MakePageToken(const std::string& binding, const std::string& last_job) {
  return absl::WebSafeBase64Escape(absl::StrCat(CheckOf(binding, last_job), last_job));
}

absl::StatusOr<std::string> ParsePageToken(const std::string& binding, const std::string& token) {
  if (token.empty()) return "";
  std::string plain;
  if (token.size() <= kLongestToken && absl::WebSafeBase64Unescape(token, &plain) &&
      plain.size() > kCheckLength) {
    const std::string job = plain.substr(kCheckLength);
    if (plain.substr(0, kCheckLength) == CheckOf(binding, job) &&
        CheckJobName("page_token", job).ok()) {
      return job;
    }
  }
  return InvalidField("page_token", token,
                      "must come from the answer before, to a request with the same filter",
                      "PAGE_TOKEN_MISMATCH");
}

}  // namespace headcount::server
