// The last border before gRPC: nothing thrown below it gets through, since gRPC would turn an
// exception into UNKNOWN or end the process. Pure function.

#pragma once

#include <exception>
#include <functional>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace headcount::server {

inline absl::Status Guarded(const std::function<absl::Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return WithReason(absl::ResourceExhaustedError("out of memory"), "OUT_OF_MEMORY");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected exception");
  }
}

}  // namespace headcount::server
