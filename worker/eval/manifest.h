// The prepare stage's product: all token ids of a job, in the groups that share a prefix.
//
// BuildManifest tokenises documents (in their order) on several threads and lays samples out in
// groups; its result depends on documents and encoder alone, never on thread count, so equal jobs
// have equal manifests, byte for byte. Used by worker/eval/prepare. Errors: those of encode.h;
// INVALID_ARGUMENT naming sample, tokens and limit for a prompt that, with the new tokens it may be
// continued by, is longer than the model's context (the harness cuts such prompts silently);
// CANCELLED when told to stop.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/storage.pb.h"
#include "worker/eval/document.h"
#include "worker/eval/encode.h"

namespace headcount::eval {

struct ManifestOptions {
  // One group for all documents of a task, because they share examples or a description; else one
  // a document.
  bool group_by_task = false;
  int64_t max_tokens = 0;                 // of one input: the model's context
  int64_t new_tokens = 0;                 // that contexts are to be continued by, at most
  std::optional<int32_t> rolling_prefix;  // what rolling documents are read after
  int threads = 1;
  // Told after each document, from any thread; may be empty.
  std::function<void(int64_t done, int64_t total)> progress;
  const std::atomic<bool>* cancel = nullptr;  // may be null
};

// Fills documents, groups, samples, longest_sample and requests_digest; the caller adds names,
// metrics, the tokenizer's digest and the first token.
absl::StatusOr<v1::Manifest> BuildManifest(const std::vector<Document>& documents,
                                           const Encoder& encode, const ManifestOptions& options);

// SHA-256 (hex) over the rendered text: of every document its id, context, number of continuations,
// each of them, each end of its contexts and its gold text; strings after their size in bytes,
// numbers as little-endian uint64.
std::string RequestsDigest(const std::vector<Document>& documents);

// SHA-256 over a sample's token ids, input then targets, each a little-endian int32.
std::string SampleDigest(const std::vector<int32_t>& input, const std::vector<int32_t>& targets);

}  // namespace headcount::eval
