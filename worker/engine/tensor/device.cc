// See device.h.

#include "worker/engine/tensor/device.h"

#include <dlfcn.h>

#include <string>

#include "ATen/DeviceAccelerator.h"
#include "absl/strings/str_cat.h"
#include "worker/engine/tensor/torch_guard.h"

namespace headcount::engine {
namespace {

// libtorch_cuda.so lies beside the libtorch_cpu.so that this process already runs with; a bare name
// would depend on the environment.
std::string CudaLibraryPath() {
  Dl_info info;
  const auto* symbol = reinterpret_cast<const void*>(&at::accelerator::isAccelerator);
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "libtorch_cuda.so";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "libtorch_cuda.so"
                                    : path.substr(0, slash) + "/libtorch_cuda.so";
}

absl::Status LoadCuda() {
  const std::string path = CudaLibraryPath();
  // Never closed: the library registers its kernels when it is loaded. RTLD_GLOBAL, as python does.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return absl::OkStatus();
  const char* reason = dlerror();
  return absl::FailedPreconditionError(absl::StrCat("device cuda: cannot load ", path, ": ",
                                                    reason == nullptr ? "unknown reason" : reason));
}

}  // namespace

absl::StatusOr<c10::Device> OpenDevice(Device device) {
  if (device.kind == Device::Kind::kCpu) return c10::Device(c10::DeviceType::CPU);
  if (absl::Status status = LoadCuda(); !status.ok()) return status;
  return GuardTorch("device cuda", [&]() -> absl::StatusOr<c10::Device> {
    const int count = at::accelerator::deviceCount();
    if (device.index < 0 || device.index >= count) {
      return absl::FailedPreconditionError(absl::StrCat(
          "device cuda:", device.index, ": this machine shows ", count, " CUDA devices"));
    }
    return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index));
  });
}

c10::ScalarType ToScalarType(DType dtype) {
  return dtype == DType::kBFloat16 ? c10::ScalarType::BFloat16 : c10::ScalarType::Float;
}

void ReleaseCachedMemory(c10::Device device) {
  if (!device.is_cpu()) at::accelerator::emptyCache();
}

}  // namespace headcount::engine
