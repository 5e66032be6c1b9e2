// What becomes of exceptions at libtorch's border.

#include "worker/engine/tensor/torch_guard.h"

#include <new>
#include <stdexcept>

#include "ATen/ops/empty.h"
#include "ATen/ops/ones.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/tensor/device.h"

namespace headcount::engine {
namespace {

using ::testing::HasSubstr;

absl::Status Guarded(void (*work)()) {
  return GuardTorch("work", [&] {
    work();
    return absl::OkStatus();
  });
}

TEST(TorchGuard, PassesResultsOn) {
  EXPECT_TRUE(Guarded([] {}).ok());
  const auto value = GuardTorch("work", []() -> absl::StatusOr<int> { return 7; });
  EXPECT_EQ(*value, 7);
}

TEST(TorchGuard, LibtorchErrorsAreInternalWithOneLine) {
  const absl::Status status = Guarded([] { at::ones({2, 3}).matmul(at::ones({4, 5})); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("work: "));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
}

TEST(TorchGuard, OutOfMemoryIsResourceExhausted) {
  // More than any machine has; the CPU allocator says so with a plain c10::Error.
  const absl::Status status = Guarded([] { at::empty({int64_t{1} << 46}); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(Guarded([] { throw std::bad_alloc(); }).code(), absl::StatusCode::kResourceExhausted);
}

TEST(TorchGuard, OtherExceptionsAreInternal) {
  EXPECT_THAT(std::string(Guarded([] { throw std::runtime_error("odd"); }).message()),
              HasSubstr("odd"));
  EXPECT_EQ(Guarded([] { throw 3; }).code(), absl::StatusCode::kInternal);
}

TEST(Device, CpuIsAlwaysThereAndCudaSaysWhyNot) {
  EXPECT_TRUE(OpenDevice({}).ok());
  const auto cuda = OpenDevice({Device::Kind::kCuda, 4096});
  EXPECT_EQ(cuda.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(cuda.status().message()), HasSubstr("device cuda"));
}

}  // namespace
}  // namespace headcount::engine
