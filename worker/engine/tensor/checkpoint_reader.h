// Reads tensor data of a safetensors checkpoint into libtorch tensors, converting between the
// floating-point types. Called by model/weights.cc. Reads with pread into the tensor's own memory:
// a file that shrinks while it is read is an error and not a signal, and nothing of it stays
// mapped.
//
// Errors: NOT_FOUND (no such tensor), FAILED_PRECONDITION (its shape or type), DATA_LOSS (fewer
// bytes than the header says), each naming the tensor. Throws libtorch's exceptions (see
// torch_guard.h). One thread at a time.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/catalog/safetensors.h"

namespace headcount::engine {

class CheckpointReader {
 public:
  // Opens every file of the checkpoint.
  static absl::StatusOr<CheckpointReader> Open(catalog::Checkpoint checkpoint);
  CheckpointReader(CheckpointReader&& other) = default;
  CheckpointReader& operator=(CheckpointReader&&) = delete;
  ~CheckpointReader();

  const catalog::Checkpoint& checkpoint() const { return checkpoint_; }

  // OK when the tensor is there with this shape, as float32, bfloat16 or float16.
  absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const;

  // Fills `destination`, a contiguous CPU tensor of the same shape, of float32 or bfloat16.
  absl::Status Read(const std::string& name, const at::Tensor& destination) const;

 private:
  explicit CheckpointReader(catalog::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  catalog::Checkpoint checkpoint_;
  std::vector<int> fds_;
};

}  // namespace headcount::engine
