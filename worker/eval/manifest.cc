// See manifest.h.

#include "worker/eval/manifest.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::eval {
namespace {

void AppendNumber(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendText(const std::string& text, std::string* out) {
  AppendNumber(text.size(), 8, out);
  out->append(text);
}

absl::Status CheckLength(const Document& document, const std::vector<EncodedSample>& samples,
                         const ManifestOptions& options) {
  for (const EncodedSample& sample : samples) {
    const auto tokens = static_cast<int64_t>(sample.input.size());
    if (tokens + options.new_tokens <= options.max_tokens) continue;
    const std::string more =
        options.new_tokens > 0
            ? absl::StrCat(" and may get ", options.new_tokens, " new ones (max_new_tokens)")
            : "";
    return WithReason(absl::InvalidArgumentError(absl::StrCat(
                          "sample ", document.id(), "/", sample.request, ": prompt has ", tokens,
                          " tokens", more, ", the model's context holds ", options.max_tokens)),
                      "PROMPT_TOO_LONG");
  }
  return absl::OkStatus();
}

// The samples of every document, by document index. The first error in document order is returned,
// whichever thread met it.
absl::StatusOr<std::vector<std::vector<EncodedSample>>> EncodeAll(
    const std::vector<Document>& documents, const Encoder& encode, const ManifestOptions& options) {
  std::vector<std::vector<EncodedSample>> samples(documents.size());
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> done = 0;
  std::mutex mutex;
  size_t failed = documents.size();
  absl::Status failure;
  const auto work = [&] {
    while (options.cancel == nullptr || !options.cancel->load()) {
      const size_t i = next.fetch_add(1);
      {
        std::lock_guard lock(mutex);
        if (i >= failed) return;
      }
      auto encoded =
          EncodeDocument(documents[i], encode, {options.rolling_prefix, options.max_tokens});
      absl::Status status =
          encoded.ok() ? CheckLength(documents[i], *encoded, options) : encoded.status();
      if (!status.ok()) {
        std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::move(status);
        }
        return;
      }
      samples[i] = *std::move(encoded);
      if (options.progress) {
        options.progress(done.fetch_add(1) + 1, static_cast<int64_t>(documents.size()));
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t < options.threads; ++t) threads.emplace_back(work);
    work();
  }
  if (options.cancel != nullptr && options.cancel->load()) {
    return absl::CancelledError("stopped while tokenising");
  }
  if (!failure.ok()) return failure;
  return samples;
}

// The longest prefix that all inputs share, short of any input's last token.
size_t SharedPrefix(std::span<const EncodedSample* const> samples) {
  const std::vector<int32_t>& first = samples.front()->input;
  size_t length = first.size() - 1;
  for (const EncodedSample* sample : samples) {
    const size_t most = std::min(length, sample->input.size() - 1);
    length =
        static_cast<size_t>(std::mismatch(first.begin(), first.begin() + static_cast<int64_t>(most),
                                          sample->input.begin())
                                .first -
                            first.begin());
  }
  return length;
}

}  // namespace

std::string RequestsDigest(const std::vector<Document>& documents) {
  std::string bytes;
  for (const Document& document : documents) {
    AppendText(document.id(), &bytes);
    AppendText(document.context, &bytes);
    AppendNumber(document.continuations.size(), 8, &bytes);
    for (const std::string& continuation : document.continuations) AppendText(continuation, &bytes);
    for (const std::string& end : document.context_ends) AppendText(end, &bytes);
    if (document.gold_text.has_value()) AppendText(*document.gold_text, &bytes);
  }
  return Sha256Hex(bytes);
}

std::string SampleDigest(const std::vector<int32_t>& input, const std::vector<int32_t>& targets) {
  std::string bytes;
  for (const int32_t id : input) AppendNumber(static_cast<uint32_t>(id), 4, &bytes);
  for (const int32_t id : targets) AppendNumber(static_cast<uint32_t>(id), 4, &bytes);
  const auto digest = Sha256(bytes);
  return std::string(digest.begin(), digest.end());
}

absl::StatusOr<v1::Manifest> BuildManifest(const std::vector<Document>& documents,
                                           const Encoder& encode, const ManifestOptions& options) {
  if (documents.empty()) return absl::InvalidArgumentError("there are no documents");
  HC_ASSIGN_OR_RETURN(const auto samples, EncodeAll(documents, encode, options));

  v1::Manifest manifest;
  manifest.set_requests_digest(RequestsDigest(documents));
  int64_t longest = 0;
  for (size_t first = 0; first < documents.size();) {
    size_t end = first + 1;
    while (options.group_by_task && end < documents.size() &&
           documents[end].task == documents[first].task) {
      ++end;
    }
    std::vector<const EncodedSample*> group;
    for (size_t d = first; d < end; ++d) {
      for (const EncodedSample& sample : samples[d]) group.push_back(&sample);
    }
    const size_t shared = SharedPrefix(group);
    const std::vector<int32_t>& head = group.front()->input;
    v1::ManifestGroup* group_out = manifest.add_groups();
    group_out->set_group(manifest.groups_size() - 1);
    group_out->mutable_prefix()->Add(head.begin(), head.begin() + static_cast<int64_t>(shared));

    for (size_t d = first; d < end; ++d) {
      const Document& document = documents[d];
      v1::ManifestDocument* document_out = manifest.add_documents();
      document_out->set_id(document.id());
      document_out->set_subtask(document.task);
      document_out->set_gold(document.gold);
      document_out->set_words(document.words);
      document_out->set_bytes(document.bytes);
      if (document.gold_text.has_value()) document_out->set_gold_text(*document.gold_text);
      document_out->mutable_choice_lengths()->Add(document.choice_lengths.begin(),
                                                  document.choice_lengths.end());
      for (const EncodedSample& sample : samples[d]) {
        v1::ManifestSample* out = manifest.add_samples();
        out->set_id(absl::StrCat(document.id(), "/", sample.request));
        out->set_document(static_cast<int64_t>(d));
        out->set_request(sample.request);
        out->set_group(group_out->group());
        out->mutable_suffix()->Add(sample.input.begin() + static_cast<int64_t>(shared),
                                   sample.input.end());
        out->mutable_targets()->Add(sample.targets.begin(), sample.targets.end());
        out->set_scored(sample.scored);
        out->mutable_choices()->Add(sample.choices.begin(), sample.choices.end());
        out->set_digest(SampleDigest(sample.input, sample.targets));
        longest = std::max(longest, static_cast<int64_t>(sample.input.size()));
      }
    }
    first = end;
  }
  manifest.set_longest_sample(longest + options.new_tokens);
  return manifest;
}

}  // namespace headcount::eval
