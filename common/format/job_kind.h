// The name of a job's kind, read from the contract itself, so that a new arm of the spec needs no
// second list. Pure.

#pragma once

#include <string>

#include "headcount/v1/job.pb.h"

namespace headcount::format {

// The arm of the spec that is set: "score", "ablate", "sweep", ...; empty where none is.
std::string JobKind(const v1::Job& job);

}  // namespace headcount::format
