// The frame around everything that lies on disk: chunks, slabs, manifests.
//
//   offset  bytes
//   0       4     magic "HCNT"
//   4       1     kind (FrameKind)
//   5       1     format version of that kind
//   6       2     0
//   8       4     CRC-32C of bytes 12 to the end, little-endian
//   12      8     payload bytes before compression, little-endian
//   20            payload, one zstd frame (level 3)
//
// The payload is a message of storage.proto, serialised deterministically, so equal results have
// equal bytes and one digest. Used by the worker (writes) and the server (checks, reads). Pure
// functions. Errors: DATA_LOSS for anything that is not a whole, intact frame, naming what is
// wrong; FAILED_PRECONDITION for a newer format version, with both numbers.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace headcount::format {

enum class FrameKind : uint8_t { kManifest = 1, kScoreChunk = 2, kAblateChunk = 3 };

// The version this build writes, and the newest it reads.
inline constexpr int kFormatVersion = 1;

// A frame that claims more than this once decompressed is refused.
inline constexpr uint64_t kLargestPayload = uint64_t{1} << 31;

std::string Frame(FrameKind kind, const google::protobuf::MessageLite& payload);

// Checks magic, kind, version, checksum and size, decompresses and parses.
absl::Status Unframe(FrameKind kind, std::string_view bytes,
                     google::protobuf::MessageLite* payload);

}  // namespace headcount::format
