// Page tokens: bound to their request, believed only when they are ours.

#include "server/api/page_token.h"

#include <gtest/gtest.h>

#include "common/base/errors.h"

namespace headcount::server {
namespace {

TEST(PageToken, ComesBackForTheSameRequestAlone) {
  const std::string job = "projects/default/jobs/abc";
  const std::string token = MakePageToken("filter", job);
  EXPECT_EQ(*ParsePageToken("filter", token), job);
  EXPECT_EQ(*ParsePageToken("filter", ""), "");
  EXPECT_EQ(ReasonOf(ParsePageToken("other", token).status()), "PAGE_TOKEN_MISMATCH");
}

TEST(PageToken, AnyChangedCharacterIsNoticed) {
  const std::string token = MakePageToken("filter", "projects/default/jobs/abc");
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(ParsePageToken("filter", changed).ok()) << i;
  }
  for (const std::string& bad : {std::string("x"), std::string("!!!"), std::string(5000, 'A')}) {
    EXPECT_EQ(FieldOf(ParsePageToken("filter", bad).status()), "page_token");
  }
}

}  // namespace
}  // namespace headcount::server
