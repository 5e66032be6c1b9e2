// A job's kind and the samples it runs over, read from the contract itself, so that a new arm of
// the spec needs no second list. Pure.

#pragma once

#include <string>

#include "headcount/v1/job.pb.h"

namespace headcount::format {

// The arm of the spec that is set: "score", "ablate", "sweep", ...; empty where none is.
std::string JobKind(const v1::Job& job);

// The `workload` of the arm that is set; an empty one where none is. Lives as long as the job.
const v1::Workload& WorkloadOf(const v1::Job& job);
// The same to change; null where no arm is set.
v1::Workload* MutableWorkloadOf(v1::Job* job);

}  // namespace headcount::format
