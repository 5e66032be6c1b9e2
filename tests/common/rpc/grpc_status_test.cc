// Errors across the gRPC border: reason and field survive, UNKNOWN never leaves, nothing outgrows a
// trailer.

#include "common/rpc/grpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.h"
#include "common/format/rpc_status.h"
#include "google/rpc/error_details.pb.h"

namespace headcount::rpc {
namespace {

using ::testing::HasSubstr;

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(GrpcStatus, OkIsOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(GrpcStatus, ReasonAndFieldSurvive) {
  const absl::Status error =
      InvalidField("job.sweep.fractions[2]", "1.5", "must be in (0, 1]", "FRACTION_OUT_OF_RANGE");
  const grpc::Status wire = ToGrpc(error);
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const google::rpc::Status details = Details(wire);
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  ASSERT_TRUE(details.details(1).UnpackTo(&bad));
  EXPECT_EQ(info.reason(), "FRACTION_OUT_OF_RANGE");
  EXPECT_EQ(info.domain(), "headcount");
  EXPECT_EQ(bad.field_violations(0).field(), "job.sweep.fractions[2]");
  EXPECT_THAT(bad.field_violations(0).description(), HasSubstr("1.5"));

  const absl::Status back = FromGrpc(wire);
  EXPECT_EQ(back.code(), error.code());
  EXPECT_EQ(back.message(), error.message());
  EXPECT_EQ(ReasonOf(back), "FRACTION_OUT_OF_RANGE");
  EXPECT_EQ(FieldOf(back), "job.sweep.fractions[2]");
}

TEST(GrpcStatus, EveryErrorHasAReason) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status wire = ToGrpc(absl::Status(static_cast<absl::StatusCode>(code), "text"));
    google::rpc::ErrorInfo info;
    ASSERT_TRUE(Details(wire).details(0).UnpackTo(&info)) << code;
    EXPECT_FALSE(info.reason().empty()) << code;
    EXPECT_NE(wire.error_code(), grpc::StatusCode::UNKNOWN) << code;
    if (code != 2) {
      EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    }
  }
}

TEST(GrpcStatus, UnknownBecomesInternalWithACorrelationId) {
  const grpc::Status wire = ToGrpc(absl::UnknownError("something escaped"));
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(wire.error_message(), HasSubstr("correlation id "));
  EXPECT_NE(ToGrpc(absl::InternalError("a")).error_message(),
            ToGrpc(absl::InternalError("a")).error_message());
}

TEST(GrpcStatus, LongAndBrokenTextsFitATrailer) {
  const std::string bad = "\xff\xfe\xed\xa0\x80" + std::string(100'000, '\xc3');
  const grpc::Status wire =
      ToGrpc(WithField(WithReason(absl::InvalidArgumentError(bad), std::string(1000, 'R')), bad));
  // gRPC percent-encodes the message and base64-encodes the details.
  EXPECT_LT(wire.error_message().size() * 3 + wire.error_details().size() * 4 / 3, 8000u);
  EXPECT_EQ(FromGrpc(wire).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Details(wire).message().substr(0, 5), "?????");
}

TEST(GrpcStatus, ValidUtf8IsKept) {
  const std::string text = "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80";
  EXPECT_EQ(ToGrpc(absl::NotFoundError(text)).error_message(), text);
}

TEST(GrpcStatus, QueueFullSaysWhenToComeBack) {
  const grpc::Status wire =
      ToGrpc(WithReason(absl::ResourceExhaustedError("queue full"), "QUEUE_FULL"));
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(Details(wire).details(1).UnpackTo(&retry));
  EXPECT_GT(retry.retry_delay().seconds(), 0);
}

TEST(GrpcStatus, ErrorsOfTheLibraryComeThroughAsTheyAre) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "failed to connect"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "failed to connect");
  EXPECT_EQ(ReasonOf(status), std::nullopt);
  // Details that are not ours, or lie about the code, do not win over it.
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, "x", "\x08\x03garbage")).code(),
            absl::StatusCode::kAborted);
}

TEST(RpcStatus, StoredErrorsReadBack) {
  const absl::Status error =
      WithReason(absl::DataLossError("checkpoint rejected"), "CHECKPOINT_CHANGED");
  const absl::Status back = format::FromRpcStatus(format::ToRpcStatus(error));
  EXPECT_EQ(back.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(back), "CHECKPOINT_CHANGED");
  EXPECT_EQ(format::ToRpcStatus(absl::OkStatus()).code(), 0);
  google::rpc::Status strange;
  strange.set_code(77);
  EXPECT_EQ(format::FromRpcStatus(strange).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace headcount::rpc
