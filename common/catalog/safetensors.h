// Reads what a safetensors checkpoint says about itself: which tensors it holds, of what type and
// shape, and where their bytes lie. The server checks a model with it when a job is created, the
// engine loads weights by it; neither trusts the file. Only headers are read, never tensor data.
//
// Format: 8 bytes little-endian length N, N bytes of JSON {"name": {"dtype", "shape",
// "data_offsets": [begin, end]}, ...,
// "__metadata__": {string: string}}, then the data; offsets count from the end of the JSON. The
// tensors must cover the data exactly, without overlap or hole, up to the last byte of the file.
//
// Errors: NOT_FOUND (no such file or folder), FAILED_PRECONDITION for all that is wrong in a file,
// naming the file, the tensor, the value and the limit. Pure functions: thread-safe.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headcount::catalog {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = uint64_t{8} << 20;
inline constexpr uint64_t kMaxSafetensorsTensors = 100'000;

enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64
};

// The format's name of a type ("BF16") and the bytes of one element.
std::string_view DTypeName(DType dtype);
int DTypeBytes(DType dtype);

struct TensorInfo {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row-major; empty for a scalar; an extent may be 0
  uint64_t begin = 0;          // absolute offsets in the file
  uint64_t end = 0;
};

struct SafetensorsHeader {
  uint64_t file_bytes = 0;
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;  // "__metadata__"
};

// Reads and checks the header of the file at `path`.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path);

struct CheckpointTensor {
  int file = 0;  // index into Checkpoint::files
  TensorInfo info;
};

struct Checkpoint {
  std::vector<std::string> files;  // paths, sorted
  uint64_t bytes = 0;              // of all files together
  std::map<std::string, CheckpointTensor, std::less<>> tensors;
};

// The weights of a model's folder: model.safetensors, or else the shards that
// model.safetensors.index.json names, each with a checked header. A folder that holds weights in
// another format only is FAILED_PRECONDITION and says so.
absl::StatusOr<Checkpoint> ListCheckpoint(const std::string& directory);

}  // namespace headcount::catalog
