// Reads tensor data of a safetensors checkpoint into libtorch tensors on any device, converting
// between the floating-point types. Called by model/weights.cc. The files are mapped
// (mapped_file.h) and go to the device in their own type, which is often the smaller one, in pieces
// of a few MiB: no tensor is held twice.
//
// Errors: NOT_FOUND (no such file or tensor), DATA_LOSS (fewer bytes than the header says, or a
// file that changes meanwhile), each naming the tensor or the file. Throws libtorch's exceptions
// (see torch_guard.h). One thread at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/catalog/safetensors.h"
#include "worker/engine/tensor/mapped_file.h"

namespace headcount::engine {

class CheckpointReader {
 public:
  // Opens every file of the checkpoint.
  static absl::StatusOr<CheckpointReader> Open(catalog::Checkpoint checkpoint);

  const catalog::Checkpoint& checkpoint() const { return checkpoint_; }

  // Fills `destination`, a contiguous tensor of the same shape, of any floating-point type. The
  // file's own is float32, bfloat16 or float16 (catalog::CheckTensors).
  absl::Status Read(const std::string& name, const at::Tensor& destination) const;

 private:
  explicit CheckpointReader(catalog::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  catalog::Checkpoint checkpoint_;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

}  // namespace headcount::engine
