// Identifiers: shape and uniqueness; and which names may name a resource.

#include "common/base/ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/base/errors.h"

namespace headcount {
namespace {

using ::testing::MatchesRegex;

TEST(Ids, UuidsAreVersion4AndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = IdGenerator::System().Uuid();
    EXPECT_THAT(id, MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                 "[0-9a-f]{12}"));
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Ids, ShortIdsAreTenLettersAndDigitsAndName) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = IdGenerator::System().ShortId();
    EXPECT_THAT(id, MatchesRegex("[a-z][a-z0-9]{9}"));
    EXPECT_EQ(CheckResourceId("id", id), absl::OkStatus());
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Ids, CountingOnesCount) {
  CountingIds ids;
  EXPECT_EQ(ids.Uuid(), "id-1");
  EXPECT_EQ(ids.ShortId(), "id-2");
  EXPECT_EQ(ids.Uuid(), "id-3");
}

TEST(ResourceId, NamesThatStayInTheirFolderAreAccepted) {
  for (const std::string& id : {std::string("a"), std::string("7"), std::string("Llama-3.1_8B.v2"),
                                std::string("a."), std::string(100, 'x')}) {
    EXPECT_EQ(CheckResourceId("model", id), absl::OkStatus()) << id;
  }
}

TEST(ResourceId, NamesThatCouldLeaveItAreRefusedByField) {
  for (const std::string& id :
       {std::string(), std::string("."), std::string(".."), std::string("../etc"),
        std::string("a/b"), std::string("a\\b"), std::string("model/.."), std::string("a..b"),
        std::string(" a"), std::string("a "), std::string("-a"), std::string(".a"),
        std::string("_a"), std::string("a\nb"), std::string("a\0b", 3), std::string("\xc3\xa4"),
        std::string(101, 'x'), std::string("~"), std::string("a%2f")}) {
    const absl::Status status = CheckResourceId("model", id);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << id;
    EXPECT_EQ(FieldOf(status), "model");
    EXPECT_EQ(ReasonOf(status), "INVALID_NAME");
  }
}

}  // namespace
}  // namespace headcount
