// When a call to the server is given up: gRPC's own clock, so that no other decides. No state.

#pragma once

#include <grpc/support/time.h>
#include <grpcpp/support/time.h>

#include <chrono>

namespace headcount::agent {

inline gpr_timespec DeadlineIn(std::chrono::seconds time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_seconds(time.count(), GPR_TIMESPAN));
}

}  // namespace headcount::agent
