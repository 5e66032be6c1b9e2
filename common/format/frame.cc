// See frame.h.

#include "common/format/frame.h"

#include <zstd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/format/serialize.h"

namespace headcount::format {
namespace {

constexpr std::string_view kMagic = "HCNT";
constexpr size_t kHeaderBytes = 20;
constexpr int kLevel = 3;

void PutLittleEndian(std::string& out, size_t offset, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out[offset + i] = static_cast<char>(value >> (8 * i));
}

uint64_t GetLittleEndian(std::string_view in, size_t offset, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= uint64_t{static_cast<uint8_t>(in[offset + i])} << (8 * i);
  return value;
}

}  // namespace

std::string Frame(FrameKind kind, const google::protobuf::MessageLite& payload) {
  const std::string plain = SerializeDeterministically(payload);
  std::string out(kHeaderBytes, '\0');
  out.resize(kHeaderBytes + ZSTD_compressBound(plain.size()));
  const size_t compressed = ZSTD_compress(out.data() + kHeaderBytes, out.size() - kHeaderBytes,
                                          plain.data(), plain.size(), kLevel);
  out.resize(kHeaderBytes + compressed);
  std::copy(kMagic.begin(), kMagic.end(), out.begin());
  out[4] = static_cast<char>(kind);
  out[5] = static_cast<char>(kFormatVersion);
  PutLittleEndian(out, 12, plain.size(), 8);
  PutLittleEndian(out, 8, Crc32c(std::string_view(out).substr(12)), 4);
  return out;
}

absl::Status Unframe(FrameKind kind, std::string_view bytes,
                     google::protobuf::MessageLite* payload) {
  if (bytes.size() < kHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("frame: ", bytes.size(), " bytes, a header alone has ", kHeaderBytes));
  }
  if (bytes.substr(0, 4) != kMagic)
    return absl::DataLossError("frame: does not start with the magic HCNT");
  if (bytes[4] != static_cast<char>(kind)) {
    return absl::DataLossError(absl::StrCat("frame: kind ",
                                            static_cast<int>(static_cast<uint8_t>(bytes[4])),
                                            " where ", static_cast<int>(kind), " was expected"));
  }
  const int version = static_cast<uint8_t>(bytes[5]);
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("frame: written in format version ", version,
                                                      ", this build reads up to ", kFormatVersion));
  }
  if (version < 1) return absl::DataLossError("frame: format version 0");
  if (GetLittleEndian(bytes, 6, 2) != 0)
    return absl::DataLossError("frame: reserved bytes are not 0, the bytes are damaged");
  if (GetLittleEndian(bytes, 8, 4) != Crc32c(bytes.substr(12))) {
    return absl::DataLossError("frame: checksum differs, the bytes are damaged");
  }
  const uint64_t size = GetLittleEndian(bytes, 12, 8);
  if (size > kLargestPayload) {
    return absl::DataLossError(
        absl::StrCat("frame: claims ", size, " bytes of payload, the limit is ", kLargestPayload));
  }
  // Memory is taken only for what the bytes there can become: a block of zstd has at least 3 bytes
  // and makes at most 128 KiB.
  const uint64_t compressed = bytes.size() - kHeaderBytes;
  if (size > (compressed / 3 + 1) * (uint64_t{1} << 17) ||
      ZSTD_getFrameContentSize(bytes.data() + kHeaderBytes, compressed) != size) {
    return absl::DataLossError(absl::StrCat("frame: claims ", size, " bytes of payload, its ",
                                            compressed, " compressed bytes do not hold that"));
  }
  std::string plain(size, '\0');
  const size_t got = ZSTD_decompress(plain.data(), plain.size(), bytes.data() + kHeaderBytes,
                                     bytes.size() - kHeaderBytes);
  if (ZSTD_isError(got) || got != size)
    return absl::DataLossError("frame: payload does not decompress to its size");
  if (!payload->ParseFromString(plain))
    return absl::DataLossError("frame: payload is not the message it should be");
  return absl::OkStatus();
}

}  // namespace headcount::format
