// Checks a manifest before it is kept: everything later stages take for granted when they index
// into it. The report sink calls it on what a worker sent; JobFlow trusts what it finds stored.
// Pure function.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::plan {

// INVALID_ARGUMENT (BAD_MANIFEST) naming the entry, its value and what is allowed.
// `vocabulary` bounds token ids, `context_length` the tokens of a sample.
absl::Status CheckManifest(const v1::Manifest& manifest, int64_t vocabulary,
                           int64_t context_length);

}  // namespace headcount::plan
