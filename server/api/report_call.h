// ReportResults on the wire: gathers a header and its pieces, within limits, and hands the whole
// chunk to the report sink on the pool. Deletes itself when gRPC is done with it.

#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "headcount/v1/worker_service.pb.h"
#include "server/api/service_context.h"

namespace headcount::server {

// A chunk larger than this is refused before its bytes are taken.
inline constexpr int64_t kLargestChunk = int64_t{1} << 30;

class ReportCall final : public grpc::ServerReadReactor<v1::ReportResultsRequest> {
 public:
  // `context` is not owned; `response` lives as long as the call.
  ReportCall(const ServiceContext& context, v1::ReportResultsResponse* response);

  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  absl::Status Take();
  absl::Status Store();
  // The call may be gone afterwards.
  void End(const absl::Status& status);

  const ServiceContext& context_;
  v1::ReportResultsResponse* const response_;
  v1::ReportResultsRequest piece_;
  bool has_header_ = false;
  v1::ReportHeader header_;
  std::string data_;
};

}  // namespace headcount::server
