// See report_call.h.

#include "server/api/report_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "server/api/calls.h"
#include "server/api/guard.h"

namespace headcount::server {
namespace {

constexpr char kMethod[] = "WorkerService/ReportResults";
// Memory is set aside for at most this much on the header's word alone.
constexpr int64_t kTrustedBytes = int64_t{16} << 20;

}  // namespace

ReportCall::ReportCall(const ServiceContext& context, v1::ReportResultsResponse* response)
    : context_(context), response_(response) {
  StartRead(&piece_);
}

absl::Status ReportCall::Take() {
  if (piece_.has_header()) {
    if (has_header_) return InvalidField("header", "", "must be sent once, first");
    has_header_ = true;
    header_ = piece_.header();
    if (header_.bytes() < 1 || header_.bytes() > kLargestChunk) {
      return InvalidField("header.bytes", std::to_string(header_.bytes()),
                          std::string(absl::StrCat("must be 1 to ", kLargestChunk)));
    }
    data_.reserve(static_cast<size_t>(std::min(header_.bytes(), kTrustedBytes)));
    return absl::OkStatus();
  }
  if (!has_header_) return InvalidField("header", "", "must be sent first");
  const std::string& piece = piece_.data();
  if (piece.empty() || piece.size() > rpc::kPieceBytes) {
    return InvalidField("data", std::string(absl::StrCat(piece.size(), " bytes")),
                        std::string(absl::StrCat("must be 1 to ", rpc::kPieceBytes, " bytes")));
  }
  if (data_.size() + piece.size() > static_cast<size_t>(header_.bytes())) {
    return WithReason(absl::DataLossError(absl::StrCat("more data than the ", header_.bytes(),
                                                       " bytes of the header")),
                      "CHECKSUM_MISMATCH");
  }
  data_.append(piece);
  return absl::OkStatus();
}

void ReportCall::OnReadDone(bool ok) {
  if (ok) {
    if (absl::Status status = Guarded([this] { return Take(); }); !status.ok()) {
      return End(status);
    }
    StartRead(&piece_);
    return;
  }
  if (!has_header_) return End(InvalidField("header", "", "must be sent first"));
  const bool queued = context_.quick.TryRun([this] { End(Guarded([this] { return Store(); })); });
  if (!queued) End(ServerBusy());
}

absl::Status ReportCall::Store() {
  HC_ASSIGN_OR_RETURN(*response_, context_.reports.Report(header_, data_));
  if (response_->outcome() == v1::ReportResultsResponse::STORED) {
    context_.metrics.UnitStored(header_);
  }
  return absl::OkStatus();
}

void ReportCall::End(const absl::Status& status) {
  context_.metrics.Handled(kMethod, status.code());
  Finish(rpc::ToGrpc(status));
}

}  // namespace headcount::server
