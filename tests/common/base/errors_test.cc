// Errors carry their field and reason, survive annotation, and never break a line of the log.

#include "common/base/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status_macros.h"

namespace headcount {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Errors, AnInvalidFieldNamesFieldValueAndLimit) {
  const absl::Status status = InvalidField("rules[3].p", "1.5", "must be at most 1");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "rules[3].p: must be at most 1 (got \"1.5\")");
  EXPECT_EQ(FieldOf(status), "rules[3].p");
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(ReasonOf(InvalidField("f", "v", "m", "TOO_MANY")), "TOO_MANY");
}

TEST(Errors, ValuesOfClientsAreEscapedAndCut) {
  const absl::Status status = InvalidField("name", std::string("a\nb\x7f\0c", 6), "no");
  EXPECT_EQ(status.message(), "name: no (got \"a\\x0ab\\x7f\\x00c\")");
  const absl::Status longer = InvalidField("name", std::string(5000, 'x'), "too long");
  EXPECT_LT(longer.message().size(), 300u);
  EXPECT_THAT(std::string(longer.message()), HasSubstr("(5000 bytes)"));
}

TEST(Errors, WhatIsNotServedNamesItsField) {
  const absl::Status status = UnimplementedField("score.related");
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_EQ(FieldOf(status), "score.related");
  EXPECT_EQ(ReasonOf(status), "FIELD_UNIMPLEMENTED");
}

TEST(Errors, AnnotationKeepsCodeFieldAndReason) {
  const absl::Status inner = WithField(WithReason(absl::AbortedError("gone"), "LEASE_LOST"), "f");
  const absl::Status status = Annotate(inner, "job 7");
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(status.message(), "job 7: gone");
  EXPECT_EQ(ReasonOf(status), "LEASE_LOST");
  EXPECT_EQ(FieldOf(status), "f");
}

TEST(Errors, APlainStatusHasNeither) {
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(FieldOf(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(ReasonOf(absl::OkStatus()), std::nullopt);
}

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

absl::StatusOr<int> Quarter(int value) {
  HC_ASSIGN_OR_RETURN(const int half, Half(value));
  HC_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status Check(int value) {
  HC_RETURN_IF_ERROR(Quarter(value).status());
  return absl::OkStatus();
}

TEST(StatusMacros, ReturnTheFirstErrorOrGoOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_TRUE(absl::IsInvalidArgument(Quarter(6).status()));
  EXPECT_EQ(Check(4), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(Check(1)));
}

}  // namespace
}  // namespace headcount
