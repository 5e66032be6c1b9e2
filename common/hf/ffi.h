// How the C++ files of this folder take results from the Rust crate. Internal to common/hf.
// Thread-safe.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/hf/hf.h"

namespace headcount::hf::internal {

inline const uint8_t* Data(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Copies and frees.
inline std::string Take(HcHfBytes bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data), bytes.size);
  hc_hf_bytes_free(bytes);
  return text;
}

// The status of a call that did not return HC_HF_OK; frees `error`.
inline absl::Status TakeError(HcHfCode code, HcHfBytes error) {
  const std::string message = Take(error);
  switch (code) {
    case HC_HF_INVALID:
      return absl::InvalidArgumentError(message);
    case HC_HF_EXHAUSTED:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace headcount::hf::internal
