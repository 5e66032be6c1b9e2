// See digest.h.

#include "common/base/digest.h"

#include <openssl/sha.h>

#include <cstring>

#include "absl/strings/escaping.h"

namespace headcount {
namespace {

std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

}  // namespace

std::array<uint8_t, 32> Sha256(std::string_view bytes) {
  std::array<uint8_t, 32> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::string Sha256Hex(std::string_view bytes) {
  const auto digest = Sha256(bytes);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

uint32_t Crc32c(std::string_view bytes, uint32_t seed) {
  static const std::array<uint32_t, 256> table = MakeCrcTable();
  uint32_t crc = ~seed;
  for (unsigned char byte : bytes) crc = table[(crc ^ byte) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint64_t RandomKey(uint64_t seed, std::string_view sample_id) {
  std::string text(8, '\0');
  for (int i = 0; i < 8; ++i) text[i] = static_cast<char>(seed >> (8 * i));
  text.append(sample_id);
  const auto digest = Sha256(text);
  uint64_t key = 0;
  for (int i = 0; i < 8; ++i) key |= static_cast<uint64_t>(digest[i]) << (8 * i);
  return key;
}

}  // namespace headcount
