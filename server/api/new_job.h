// From a CreateJobRequest to what the store keeps: the request's own fields are checked here, the
// spec by server/plan. Pure functions. INVALID_ARGUMENT naming the field.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "headcount/v1/job_service.pb.h"
#include "server/store/job_store.h"

namespace headcount::server {

// A UUID, or empty.
absl::Status CheckRequestId(const std::string& request_id);

// The job with new ids; only spec, labels and priority are taken from the request.
store::NewJob MakeNewJob(const v1::CreateJobRequest& request, const std::string& project,
                         const std::string& owner, IdGenerator& ids);

// SHA-256 of what a request id stands for: project, spec, labels, priority.
std::string BodyDigest(const std::string& project, const v1::Job& job);

}  // namespace headcount::server
