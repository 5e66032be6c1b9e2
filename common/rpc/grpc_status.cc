// See grpc_status.h.

#include "common/rpc/grpc_status.h"

#include <spdlog/spdlog.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/format/rpc_status.h"

namespace headcount::rpc {
namespace {

absl::Status WithCorrelationId(const absl::Status& status) {
  const std::string id = IdGenerator::System().ShortId();
  spdlog::error("internal error, correlation id {}: {}", id, status.ToString());
  absl::Status out(absl::StatusCode::kInternal,
                   absl::StrCat(status.message(), " (correlation id ", id, ")"));
  if (const auto reason = ReasonOf(status)) out = WithReason(std::move(out), *reason);
  if (const auto field = FieldOf(status)) out = WithField(std::move(out), *field);
  return out;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const bool ours =
      status.code() == absl::StatusCode::kInternal || status.code() == absl::StatusCode::kUnknown;
  const google::rpc::Status details =
      format::ToRpcStatus(ours ? WithCorrelationId(status) : status);
  return grpc::Status(static_cast<grpc::StatusCode>(details.code()), details.message(),
                      details.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details()) &&
      details.code() == static_cast<int>(status.error_code())) {
    return format::FromRpcStatus(details);
  }
  google::rpc::Status plain;
  plain.set_code(static_cast<int>(status.error_code()));
  plain.set_message(status.error_message());
  return format::FromRpcStatus(plain);
}

}  // namespace headcount::rpc
