// Checks a new job before anything is stored: every field of its spec, its labels and its priority.
// CreateJob calls it, with validate_only too. What only the prepare stage can see (columns,
// templates, prompts that are too long) is not checked here.
//
// Thread-safe as far as the context is. Errors name the field's path below the job, the value and
// the limit: INVALID_ARGUMENT; OUT_OF_RANGE for a layer or head that the model does not have;
// UNIMPLEMENTED (FIELD_UNIMPLEMENTED) for a field, arm or kind that is defined but not served;
// NOT_FOUND and FAILED_PRECONDITION for a model, task or score job that is missing or cannot be
// used.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/config/config.h"
#include "headcount/v1/job.pb.h"
#include "server/plan/job_catalog.h"
#include "server/store/job_store.h"

namespace headcount::plan {

struct ValidationLimits {
  int max_rules = 6'000;
  int64_t max_inline_bytes = 2 << 20;
};

struct ValidationContext {
  const JobCatalog& catalog;
  store::JobStore& jobs;  // for score jobs
  ValidationLimits limits;
};

ValidationLimits LimitsOf(const Config& config);

absl::Status ValidateJob(const v1::Job& job, const ValidationContext& context);

}  // namespace headcount::plan
