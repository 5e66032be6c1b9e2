// See encode.h.

#include "worker/eval/encode.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/eval/unicode.h"

namespace headcount::eval {

namespace {

absl::StatusOr<std::vector<EncodedSample>> EncodeWindows(const Document& document,
                                                         const Encoder& encode,
                                                         const RollingWindows& windows) {
  if (!windows.prefix.has_value()) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "sample ", document.id(),
            "/0: the tokenizer names neither a BOS nor an EOS token to read it after")),
        "NO_BOS_TOKEN");
  }
  HC_ASSIGN_OR_RETURN(const std::vector<int32_t> text, encode(document.continuations.front()));
  if (text.empty()) {
    return WithReason(absl::InvalidArgumentError(
                          absl::StrCat("sample ", document.id(), "/0: the text has no tokens")),
                      "SAMPLE_NOT_SCORABLE");
  }
  std::vector<int32_t> read = {*windows.prefix};  // read[i] comes before text[i]
  read.insert(read.end(), text.begin(), text.end() - 1);
  const auto most = static_cast<size_t>(windows.most_tokens);
  std::vector<EncodedSample> samples;
  for (size_t predicted = 0; predicted < text.size();) {
    const size_t end = std::min(text.size(), predicted + most);
    const size_t begin = predicted == 0 ? 0 : end - most;
    const auto at = [](const std::vector<int32_t>& tokens, size_t i) {
      return tokens.begin() + static_cast<int64_t>(i);
    };
    EncodedSample& sample = samples.emplace_back();
    sample.request = static_cast<int>(samples.size()) - 1;
    sample.input.assign(at(read, begin), at(read, end));
    sample.targets.assign(at(text, predicted), at(text, end));
    sample.scored = static_cast<int>(end - predicted);
    sample.choices = {0};
    predicted = end;
  }
  return samples;
}

}  // namespace

absl::StatusOr<std::vector<EncodedSample>> EncodeDocument(const Document& document,
                                                          const Encoder& encode,
                                                          const RollingWindows& windows) {
  if (document.rolling) return EncodeWindows(document, encode, windows);
  std::vector<EncodedSample> samples;
  const auto error = [&document](size_t request, const char* what) {
    return WithReason(absl::InvalidArgumentError(
                          absl::StrCat("sample ", document.id(), "/", request, ": ", what)),
                      "SAMPLE_NOT_SCORABLE");
  };
  if (document.continuations.empty()) {
    EncodedSample sample;
    HC_ASSIGN_OR_RETURN(sample.input, encode(document.context));
    if (sample.input.empty()) return error(0, "the context has no tokens");
    samples.push_back(std::move(sample));
    return samples;
  }
  std::vector<int32_t> context_ids;
  for (size_t i = 0; i < document.continuations.size(); ++i) {
    const std::string context = document.Context(i);
    if (i == 0 || !document.context_ends.empty()) {
      HC_ASSIGN_OR_RETURN(context_ids, encode(std::string_view(context).substr(
                                           0, context.size() - TrailingSpace(context))));
      if (context_ids.empty()) return error(i, "the context has no tokens but white space");
    }
    HC_ASSIGN_OR_RETURN(const std::vector<int32_t> whole,
                        encode(context + document.continuations[i]));
    // The context's ids need not be a prefix of the whole's where the tokenizer merges across the
    // seam; the harness cuts by count all the same.
    if (whole.size() <= context_ids.size()) {
      return error(i, "the continuation adds no token to its context");
    }
    const auto seam = whole.begin() + static_cast<int64_t>(context_ids.size());
    std::vector<int32_t> input = context_ids;
    input.insert(input.end(), seam, whole.end() - 1);
    const int scored = static_cast<int>(whole.end() - seam);
    auto same = std::find_if(samples.begin(), samples.end(), [&](const EncodedSample& sample) {
      return sample.scored == scored && sample.input == input;
    });
    if (same == samples.end()) {
      EncodedSample sample;
      sample.request = static_cast<int>(i);
      sample.input = std::move(input);
      sample.scored = scored;
      same = samples.insert(samples.end(), std::move(sample));
    }
    same->targets.insert(same->targets.end(), seam, whole.end());
    same->choices.push_back(static_cast<int32_t>(i));
  }
  return samples;
}

}  // namespace headcount::eval
