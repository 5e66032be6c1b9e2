// Token ids to text by the loaded model's tokenizer, as the engine's factory hands it out. Used by
// the thread that the engine is used by. Errors: the tokenizer's.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace headcount::agent {

// With or without special tokens. What of a text is not whole UTF-8 comes out as U+FFFD.
using Decoder =
    std::function<absl::StatusOr<std::string>(std::span<const int32_t> ids, bool skip_special)>;

}  // namespace headcount::agent
