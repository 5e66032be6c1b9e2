// See checkpoint_reader.h.

#include "worker/engine/tensor/checkpoint_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace headcount::engine {
namespace {

using catalog::CheckpointTensor;

constexpr int64_t kConvertElements = 4 << 20;  // bounds the buffer while a type is converted

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

absl::Status ReadBytes(int fd, const std::string& path, uint64_t offset, char* to, uint64_t count) {
  while (count > 0) {
    const ssize_t got =
        pread(fd, to, std::min<uint64_t>(count, 1u << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::DataLossError(absl::StrCat("reading ", path, ": ", std::strerror(errno)));
    }
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path, " ends at byte ", offset, ", before its header says"));
    }
    offset += static_cast<uint64_t>(got);
    to += got;
    count -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointReader> CheckpointReader::Open(catalog::Checkpoint checkpoint) {
  CheckpointReader reader(std::move(checkpoint));
  for (const std::string& path : reader.checkpoint_.files) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::NotFoundError(absl::StrCat("open ", path, ": ", std::strerror(errno)));
    reader.fds_.push_back(fd);
  }
  return reader;
}

CheckpointReader::~CheckpointReader() {
  for (int fd : fds_) close(fd);
}

absl::Status CheckpointReader::Check(const std::string& name,
                                     const std::vector<int64_t>& shape) const {
  const auto found = checkpoint_.tensors.find(name);
  if (found == checkpoint_.tensors.end()) {
    return absl::FailedPreconditionError(absl::StrCat("tensor ", name, " is missing"));
  }
  const catalog::TensorInfo& info = found->second.info;
  if (info.shape != shape) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor ", name, " has the shape [", absl::StrJoin(info.shape, ", "),
                     "], config.json asks for [", absl::StrJoin(shape, ", "), "]"));
  }
  c10::ScalarType type;
  if (!ToScalarType(info.dtype, type)) {
    return absl::FailedPreconditionError(absl::StrCat("tensor ", name, " has the type ",
                                                      std::string(catalog::DTypeName(info.dtype)),
                                                      "; supported: F32, BF16, F16"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Read(const std::string& name, const at::Tensor& destination) const {
  const auto found = checkpoint_.tensors.find(name);
  if (found == checkpoint_.tensors.end()) {
    return absl::NotFoundError(absl::StrCat("tensor ", name, " is missing"));
  }
  const CheckpointTensor& tensor = found->second;
  const auto file = static_cast<size_t>(tensor.file);
  const std::string& path = checkpoint_.files[file];
  c10::ScalarType type = c10::ScalarType::Undefined;
  ToScalarType(tensor.info.dtype, type);
  if (type == destination.scalar_type()) {
    return ReadBytes(fds_[file], path, tensor.info.begin,
                     static_cast<char*>(destination.data_ptr()), destination.nbytes());
  }
  const at::Tensor flat = destination.view({-1});
  const at::Tensor buffer = at::empty({std::min(kConvertElements, flat.numel())}, type);
  const auto element = static_cast<uint64_t>(buffer.element_size());
  for (int64_t at = 0; at < flat.numel(); at += kConvertElements) {
    const int64_t count = std::min(kConvertElements, flat.numel() - at);
    absl::Status status =
        ReadBytes(fds_[file], path, tensor.info.begin + static_cast<uint64_t>(at) * element,
                  static_cast<char*>(buffer.data_ptr()), static_cast<uint64_t>(count) * element);
    if (!status.ok()) return status;
    flat.narrow(0, at, count).copy_(buffer.narrow(0, 0, count));
  }
  return absl::OkStatus();
}

}  // namespace headcount::engine
