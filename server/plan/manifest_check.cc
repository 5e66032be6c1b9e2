// See manifest_check.h.

#include "server/plan/manifest_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/answers.h"

namespace headcount::plan {
namespace {

constexpr int kMostMetrics = 32;

absl::Status Bad(const std::string& where, int64_t value, const std::string& allowed) {
  return WithReason(absl::InvalidArgumentError(
                        absl::StrCat("manifest ", where, ": must be ", allowed, ", is ", value)),
                    "BAD_MANIFEST");
}

absl::Status CheckTokens(const google::protobuf::RepeatedField<int32_t>& tokens,
                         const std::string& where, int64_t vocabulary) {
  for (int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return Bad(where, token, absl::StrCat("a token id in [0, ", vocabulary - 1, "]"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDocument(const v1::ManifestDocument& document, int index) {
  const int choices = document.choice_lengths_size();
  if (document.gold() < -1 || (document.gold() >= 0 && document.gold() >= choices)) {
    return Bad(absl::StrCat("documents[", index, "].gold"), document.gold(),
               absl::StrCat("-1 or a choice below ", choices));
  }
  return absl::OkStatus();
}

absl::Status CheckGeneration(const v1::Manifest& manifest, int64_t vocabulary) {
  const v1::Generation& generation = manifest.generation();
  if (generation.max_new_tokens() < 1) {
    return Bad("generation.max_new_tokens", generation.max_new_tokens(), "at least 1");
  }
  HC_RETURN_IF_ERROR(CheckTokens(generation.stop_tokens(), "generation.stop_tokens", vocabulary));
  if (manifest.answer_metrics_size() < 1 || manifest.answer_metrics_size() > kMostMetrics ||
      manifest.answer_metrics_size() != manifest.metrics_size()) {
    return Bad(
        "answer_metrics", manifest.answer_metrics_size(),
        absl::StrCat("as many as metrics, ", manifest.metrics_size(), ", and 1 to ", kMostMetrics));
  }
  const absl::Status judges = results::AnswerJudges::Make(manifest).status();
  return judges.ok() ? judges : WithReason(Annotate(judges, "manifest"), "BAD_MANIFEST");
}

absl::Status CheckSample(const v1::Manifest& manifest, int index, int64_t vocabulary,
                         int64_t context_length) {
  const v1::ManifestSample& sample = manifest.samples(index);
  const std::string where = absl::StrCat("samples[", index, "]");
  if (sample.group() < 0 || sample.group() >= manifest.groups_size()) {
    return Bad(where + ".group", sample.group(), absl::StrCat("below ", manifest.groups_size()));
  }
  if (sample.document() < 0 || sample.document() >= manifest.documents_size()) {
    return Bad(where + ".document", sample.document(),
               absl::StrCat("below ", manifest.documents_size()));
  }
  const int64_t tokens = int64_t{manifest.groups(static_cast<int>(sample.group())).prefix_size()} +
                         sample.suffix_size();
  const int64_t most = context_length - manifest.generation().max_new_tokens();
  if (tokens < 1 || tokens > most) {
    return Bad(where + " tokens", tokens, absl::StrCat("in [1, ", most, "]"));
  }
  if (manifest.has_generation() && !sample.choices().empty()) {
    return Bad(where + ".choices", sample.choices_size(), "0: its text is to be continued");
  }
  if (sample.scored() < 0 || sample.scored() > tokens) {
    return Bad(where + ".scored", sample.scored(), absl::StrCat("in [0, ", tokens, "]"));
  }
  if (int64_t{sample.scored()} * sample.choices_size() != sample.targets_size()) {
    return Bad(where + ".targets", sample.targets_size(),
               absl::StrCat("choices x scored = ", sample.choices_size(), " x ", sample.scored()));
  }
  const int choices = manifest.documents(static_cast<int>(sample.document())).choice_lengths_size();
  for (int choice : sample.choices()) {
    if (choice < 0 || choice >= choices) {
      return Bad(where + ".choices", choice, absl::StrCat("below ", choices));
    }
  }
  HC_RETURN_IF_ERROR(CheckTokens(sample.suffix(), where + ".suffix", vocabulary));
  return CheckTokens(sample.targets(), where + ".targets", vocabulary);
}

// Groups and documents must appear in order without gaps, and no document may span two groups:
// blocks are cut on that.
absl::Status CheckOrder(const v1::Manifest& manifest) {
  int64_t group = -1;
  int64_t document = -1;
  for (int i = 0; i < manifest.samples_size(); ++i) {
    const v1::ManifestSample& sample = manifest.samples(i);
    const bool next_group = sample.group() == group + 1;
    const bool next_document = sample.document() == document + 1;
    if (sample.group() != group && !next_group) {
      return Bad(absl::StrCat("samples[", i, "].group"), sample.group(),
                 absl::StrCat(group, " or ", group + 1));
    }
    if (!next_document && (sample.document() != document || next_group)) {
      return Bad(absl::StrCat("samples[", i, "].document"), sample.document(),
                 absl::StrCat(document + 1, next_group ? "" : " or the one before"));
    }
    group = sample.group();
    document = sample.document();
  }
  if (group + 1 != manifest.groups_size()) {
    return Bad("groups", manifest.groups_size(), absl::StrCat(group + 1, ", those with samples"));
  }
  if (document + 1 != manifest.documents_size()) {
    return Bad("documents", manifest.documents_size(),
               absl::StrCat(document + 1, ", those with samples"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckManifest(const v1::Manifest& manifest, int64_t vocabulary,
                           int64_t context_length) {
  if (manifest.samples().empty()) return Bad("samples", 0, "at least 1");
  if (manifest.has_generation()) HC_RETURN_IF_ERROR(CheckGeneration(manifest, vocabulary));
  for (int i = 0; i < manifest.documents_size(); ++i) {
    HC_RETURN_IF_ERROR(CheckDocument(manifest.documents(i), i));
  }
  for (int i = 0; i < manifest.groups_size(); ++i) {
    HC_RETURN_IF_ERROR(CheckTokens(manifest.groups(i).prefix(),
                                   absl::StrCat("groups[", i, "].prefix"), vocabulary));
  }
  for (int i = 0; i < manifest.samples_size(); ++i) {
    HC_RETURN_IF_ERROR(CheckSample(manifest, i, vocabulary, context_length));
  }
  return CheckOrder(manifest);
}

}  // namespace headcount::plan
