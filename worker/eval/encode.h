// From strings to token ids and samples, as lm-evaluation-harness 0.4.5 does (`_encode_pair` and
// its one-token continuations): the encoder adds special tokens where the harness does, white space
// at the end of a context is scored with the continuation, and requests with the same input share
// one sample.
//
// Used by worker/eval/manifest. Pure functions of the text and the encoder. Errors:
// INVALID_ARGUMENT naming the sample for what cannot be scored.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/eval/document.h"

namespace headcount::eval {

// Text to token ids; called from several threads at once.
using Encoder = std::function<absl::StatusOr<std::vector<int32_t>>(std::string_view text)>;

// One distinct input of a document and the choices it scores.
struct EncodedSample {
  // Index of its first choice's request; 0 where nothing is scored. Of a rolling document the
  // number of the window.
  int request = 0;
  std::vector<int32_t> input;    // context, then continuation without its last token
  std::vector<int32_t> targets;  // continuation ids of `choices`, one after the other
  int scored = 0;                // tokens of each continuation
  std::vector<int32_t> choices;  // ascending
};

// How a rolling document is cut.
struct RollingWindows {
  std::optional<int32_t> prefix;  // the token that a text is read after: BOS, or EOS without one
  int64_t most_tokens = 0;        // of one window
};

// The samples of a document in the order of their first request. A document without continuations
// is one sample that scores nothing. A rolling one has a sample for each window, which all score
// choice 0: the first predicts all of its tokens, from `prefix` on; those that follow are as long
// as they can be and predict what is left.
absl::StatusOr<std::vector<EncodedSample>> EncodeDocument(const Document& document,
                                                          const Encoder& encode,
                                                          const RollingWindows& windows = {});

}  // namespace headcount::eval
