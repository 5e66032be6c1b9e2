// Resume tokens: what goes in comes out, and nothing else is believed.

#include "server/watch/resume_token.h"

#include <gtest/gtest.h>

#include "common/base/errors.h"

namespace headcount::server {
namespace {

TEST(ResumeToken, ComesBack) {
  EXPECT_EQ(*ParseResumeToken("", "uid", 7), 0);
  for (const int64_t sequence : {0, 1, 7}) {
    EXPECT_EQ(*ParseResumeToken(MakeResumeToken("uid", sequence), "uid", 7), sequence);
  }
}

TEST(ResumeToken, OfAnotherJobOrBeyondTheEventsHasExpired) {
  for (const std::string& token : {MakeResumeToken("other", 3), MakeResumeToken("uid", 8)}) {
    const absl::Status status = ParseResumeToken(token, "uid", 7).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << token;
    EXPECT_EQ(ReasonOf(status), "RESUME_TOKEN_EXPIRED");
  }
}

TEST(ResumeToken, OtherBytesAreRefused) {
  for (const std::string& token :
       {std::string("x"), std::string("1:"), std::string("1:uid"), std::string("1:uid:"),
        std::string("1:uid:-1"), std::string("1:uid:1x"), std::string("2:uid:1"),
        std::string("1:uid:99999999999999999999"), std::string(1000, '1'),
        std::string("1:uid:\0", 7)}) {
    EXPECT_EQ(ParseResumeToken(token, "uid", 7).status().code(), absl::StatusCode::kInvalidArgument)
        << token;
  }
}

}  // namespace
}  // namespace headcount::server
