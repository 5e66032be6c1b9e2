// Digests and checksums. Pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace headcount {

// SHA-256, raw and as 64 lower-case hex digits.
std::array<uint8_t, 32> Sha256(std::string_view bytes);
std::string Sha256Hex(std::string_view bytes);

// CRC-32C (Castagnoli), as in gRPC storage APIs. `seed` continues an earlier call's result.
uint32_t Crc32c(std::string_view bytes, uint32_t seed = 0);

// The key of a sample's random draws: first 8 bytes, little-endian, of SHA-256(seed as 8 bytes
// little-endian, sample id).
uint64_t RandomKey(uint64_t seed, std::string_view sample_id);

}  // namespace headcount
