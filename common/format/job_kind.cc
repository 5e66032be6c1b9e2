// See job_kind.h.

#include "common/format/job_kind.h"

namespace headcount::format {

std::string JobKind(const v1::Job& job) {
  const auto* arm = v1::Job::descriptor()->FindFieldByNumber(static_cast<int>(job.spec_case()));
  return arm == nullptr ? "" : arm->name();
}

}  // namespace headcount::format
