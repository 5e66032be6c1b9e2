// See checkpoint_reader.h.

#include "worker/engine/tensor/checkpoint_reader.h"

#include <algorithm>
#include <cstring>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace headcount::engine {
namespace {

constexpr int64_t kPieceElements = 1 << 20;  // that are resident, or on their way, at a time

bool ToScalarType(catalog::DType dtype, c10::ScalarType& out) {
  switch (dtype) {
    case catalog::DType::kF32:
      out = c10::ScalarType::Float;
      return true;
    case catalog::DType::kBF16:
      out = c10::ScalarType::BFloat16;
      return true;
    case catalog::DType::kF16:
      out = c10::ScalarType::Half;
      return true;
    default:
      return false;
  }
}

// `piece` of the file's own type lies at any address: libtorch wants tensors of a multiple of their
// element's size.
void CopyPiece(const char* bytes, c10::ScalarType type, const at::Tensor& piece) {
  at::Tensor source;
  if (reinterpret_cast<uintptr_t>(bytes) % c10::elementSize(type) == 0) {
    source = at::from_blob(const_cast<char*>(bytes), piece.sizes(), type);
  } else {
    source = at::empty(piece.sizes(), type);
    std::memcpy(source.data_ptr(), bytes, source.nbytes());
  }
  if (!piece.is_cpu() && type != piece.scalar_type()) source = source.to(piece.device());
  piece.copy_(source);
}

}  // namespace

absl::StatusOr<CheckpointReader> CheckpointReader::Open(catalog::Checkpoint checkpoint) {
  CheckpointReader reader(std::move(checkpoint));
  for (const std::string& path : reader.checkpoint_.files) {
    HC_ASSIGN_OR_RETURN(reader.files_.emplace_back(), MappedFile::Open(path));
  }
  return reader;
}

absl::Status CheckpointReader::Read(const std::string& name, const at::Tensor& destination) const {
  const auto found = checkpoint_.tensors.find(name);
  if (found == checkpoint_.tensors.end()) {
    return absl::NotFoundError(absl::StrCat("tensor ", name, " is missing"));
  }
  const catalog::TensorInfo& info = found->second.info;
  MappedFile& file = *files_[static_cast<size_t>(found->second.file)];
  c10::ScalarType type = c10::ScalarType::Undefined;
  ToScalarType(info.dtype, type);
  const auto element = static_cast<uint64_t>(c10::elementSize(type));
  const at::Tensor flat = destination.view({-1});
  for (int64_t at = 0; at < flat.numel(); at += kPieceElements) {
    const int64_t count = std::min(kPieceElements, flat.numel() - at);
    HC_ASSIGN_OR_RETURN(const char* bytes,
                        file.Window(info.begin + static_cast<uint64_t>(at) * element,
                                    static_cast<uint64_t>(count) * element));
    CopyPiece(bytes, type, flat.narrow(0, at, count));
    HC_RETURN_IF_ERROR(file.CheckUnchanged());
  }
  return absl::OkStatus();
}

}  // namespace headcount::engine
