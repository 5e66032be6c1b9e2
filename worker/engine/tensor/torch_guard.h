// The one place where libtorch's exceptions become absl::Status. Everything of the engine that
// calls libtorch runs inside GuardTorch, at the border: engine.cc and tensor/device.cc.
//
// Errors: RESOURCE_EXHAUSTED for out of memory on any device, INTERNAL for the rest, with the first
// line of the exception's text. Thread-safe.

#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "c10/core/InferenceMode.h"

namespace headcount::engine {

// Call only inside a catch block. `what` says which work failed.
absl::Status StatusFromCurrentException(std::string_view what);

// Runs `work` (returning Status or StatusOr) without autograd bookkeeping and returns what it
// returns.
template <typename Work>
auto GuardTorch(std::string_view what, Work&& work) -> decltype(work()) {
  try {
    c10::InferenceMode inference;
    return work();
  } catch (...) {
    return StatusFromCurrentException(what);
  }
}

}  // namespace headcount::engine
