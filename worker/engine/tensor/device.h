// Devices and number types, from the engine's words to libtorch's. Called by Engine::Load and after
// out-of-memory.
//
// The CUDA half of libtorch is loaded at run time, and only when a CUDA device is asked for: one
// binary for both. Errors: FAILED_PRECONDITION when CUDA cannot be used, with the reason. Not
// thread-safe against itself.

#pragma once

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"
#include "worker/engine/engine.h"

namespace headcount::engine {

// The device, ready for use.
absl::StatusOr<c10::Device> OpenDevice(Device device);

c10::ScalarType ToScalarType(DType dtype);

// Gives memory that libtorch keeps for reuse back to the device. Nothing to do on a CPU.
void ReleaseCachedMemory(c10::Device device);

}  // namespace headcount::engine
