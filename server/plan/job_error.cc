// See job_error.h.

#include "server/plan/job_error.h"

#include <string>

#include "common/base/errors.h"
#include "google/rpc/error_details.pb.h"

namespace headcount::plan {
namespace {

constexpr char kDomain[] = "headcount";

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace

google::rpc::Status ToJobError(const absl::Status& status) {
  google::rpc::Status error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status).value_or(CodeName(status.code())));
  info.set_domain(kDomain);
  error.add_details()->PackFrom(info);
  if (const auto field = FieldOf(status); field.has_value()) {
    google::rpc::BadRequest request;
    auto* violation = request.add_field_violations();
    violation->set_field(*field);
    violation->set_description(error.message());
    error.add_details()->PackFrom(request);
  }
  return error;
}

absl::Status FromJobError(const google::rpc::Status& error) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (error.code() > 0 && error.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated) &&
      error.code() != static_cast<int>(absl::StatusCode::kUnknown)) {
    code = static_cast<absl::StatusCode>(error.code());
  }
  absl::Status status(code, error.message());
  for (const google::protobuf::Any& detail : error.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest request;
    if (detail.UnpackTo(&info) && !info.reason().empty()) {
      status = WithReason(std::move(status), info.reason());
    } else if (detail.UnpackTo(&request) && request.field_violations_size() > 0) {
      status = WithField(std::move(status), request.field_violations(0).field());
    }
  }
  return status;
}

}  // namespace headcount::plan
