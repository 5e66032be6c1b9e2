// See records.h.

#include "server/results/records.h"

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/answers.h"

namespace headcount::results {
namespace {

// Puts the choices that one sample scored where they belong among the document's.
absl::Status PlaceChoices(const v1::ManifestSample& sample, const v1::SampleResult& result,
                          std::vector<float>* log_likelihoods) {
  for (int c = 0; c < sample.choices_size(); ++c) {
    const int choice = sample.choices(c);
    if (choice < 0 || choice >= static_cast<int>(log_likelihoods->size())) {
      return InvalidField("manifest.samples.choices", absl::StrCat(choice),
                          absl::StrCat("sample ", sample.id(), ": its document has ",
                                       log_likelihoods->size(), " choices"));
    }
    (*log_likelihoods)[static_cast<size_t>(choice)] = result.log_likelihoods(c);
  }
  return absl::OkStatus();
}

// A generated text; a row of a score stage has only read its prompt and answers nothing.
absl::StatusOr<Decision> DecideText(const AnswerJudges& judges,
                                    const v1::ManifestDocument& document,
                                    const v1::SampleResult& row, bool finite) {
  Decision decision;
  decision.finite = finite;
  decision.answered = !row.mask().empty();
  if (!decision.answered || !finite) return decision;
  HC_ASSIGN_OR_RETURN(const std::vector<tasks::Answer> answers,
                      judges.Judge(row.text(), document.gold_text()));
  for (size_t m = 0; m < answers.size(); ++m) {
    decision.correct_by |= (answers[m].correct ? 1u : 0u) << m;
  }
  decision.correct = (decision.correct_by & 1) != 0;
  return decision;
}

}  // namespace

double ShareZeroed(const std::string& mask, int64_t heads) {
  int64_t zeroed = 0;
  for (const char byte : mask) zeroed += std::popcount(static_cast<unsigned char>(byte));
  return heads > 0 ? static_cast<double>(zeroed) / static_cast<double>(heads) : 0;
}

double ShareZeroed(const v1::Manifest& manifest, const v1::SampleResult& row, int64_t heads) {
  return manifest.has_generation() ? row.share_zeroed() : ShareZeroed(row.mask(), heads);
}

absl::Status CheckGenerated(const v1::Generation& generation, const v1::ManifestSample& sample,
                            const v1::SampleResult& result) {
  const int least = result.non_finite() ? 0 : 1;
  if (result.tokens_size() < least || result.tokens_size() > generation.max_new_tokens()) {
    return InvalidField("results.tokens", absl::StrCat(result.tokens_size()),
                        absl::StrCat("sample ", sample.id(), ": must be ", least, " to ",
                                     generation.max_new_tokens(), " new tokens"));
  }
  if (!(result.share_zeroed() >= 0 && result.share_zeroed() <= 1)) {
    return InvalidField("results.share_zeroed", absl::StrCat(result.share_zeroed()),
                        absl::StrCat("sample ", sample.id(), ": must be in [0, 1]"));
  }
  return absl::OkStatus();
}

absl::Status CheckBlock(const v1::Manifest& manifest, int64_t first_sample, int samples) {
  if (first_sample < 0 || samples < 1 || samples > manifest.samples_size() - first_sample) {
    return InvalidField("samples",
                        absl::StrCat("[", first_sample, ", ", first_sample + samples, ")"),
                        absl::StrCat("the manifest has ", manifest.samples_size(), " samples"));
  }
  const int begin = static_cast<int>(first_sample);
  const int end = begin + samples;
  const auto split = [&](int at) {
    return at > 0 && at < manifest.samples_size() &&
           manifest.samples(at - 1).document() == manifest.samples(at).document();
  };
  if (split(begin) || split(end)) {
    return absl::InternalError(
        absl::StrCat("the block of samples [", begin, ", ", end, ") splits a document"));
  }
  return absl::OkStatus();
}

absl::Status CheckRow(const v1::ManifestSample& sample, const v1::SampleResult& result,
                      int64_t heads, bool with_mask) {
  if (result.log_likelihoods_size() != sample.choices_size()) {
    return InvalidField("results.log_likelihoods", absl::StrCat(result.log_likelihoods_size()),
                        absl::StrCat("sample ", sample.id(), " scores ", sample.choices_size(),
                                     " choices, one value each is expected"));
  }
  if (result.greedy_size() != 0 && result.greedy_size() != sample.choices_size()) {
    return InvalidField("results.greedy", absl::StrCat(result.greedy_size()),
                        absl::StrCat("sample ", sample.id(), " scores ", sample.choices_size(),
                                     " choices, one value each is expected"));
  }
  const int64_t mask_bytes = with_mask ? (heads + 7) / 8 : 0;
  const std::string& mask = result.mask();
  if (static_cast<int64_t>(mask.size()) != mask_bytes) {
    return InvalidField(
        "results.mask", absl::StrCat(mask.size(), " bytes"),
        absl::StrCat("sample ", sample.id(), ": ", mask_bytes, " bytes are expected"));
  }
  const int used_bits = static_cast<int>(heads % 8);
  if (mask_bytes > 0 && used_bits != 0 &&
      (static_cast<unsigned char>(mask.back()) >> used_bits) != 0) {
    return InvalidField("results.mask", absl::StrCat(static_cast<unsigned char>(mask.back())),
                        absl::StrCat("sample ", sample.id(), ": only ", used_bits,
                                     " bits of the last byte may be set"));
  }
  return absl::OkStatus();
}

absl::Status ForEachDocument(const v1::Manifest& manifest, int64_t first_sample, int samples,
                             int64_t heads,
                             const std::function<const v1::SampleResult&(int)>& result,
                             const std::function<void(int64_t, const DocumentOutcome&)>& visit) {
  HC_RETURN_IF_ERROR(CheckBlock(manifest, first_sample, samples));
  HC_ASSIGN_OR_RETURN(const AnswerJudges judges, AnswerJudges::Make(manifest));
  std::vector<float> log_likelihoods;
  for (int begin = 0; begin < samples;) {
    const int64_t index = manifest.samples(static_cast<int>(first_sample) + begin).document();
    if (index < 0 || index >= manifest.documents_size()) {
      return InvalidField(
          "manifest.samples.document", absl::StrCat(index),
          absl::StrCat("the manifest has ", manifest.documents_size(), " documents"));
    }
    const v1::ManifestDocument& document = manifest.documents(static_cast<int>(index));
    // What a sample should have scored and did not stays NaN: such a document is never right.
    log_likelihoods.assign(static_cast<size_t>(document.choice_lengths_size()),
                           std::numeric_limits<float>::quiet_NaN());
    double text = 0;  // log-likelihood of a text, over its windows
    bool greedy = true;
    bool finite = true;
    double share = 0;
    int end = begin;
    for (; end < samples; ++end) {
      const v1::ManifestSample& sample = manifest.samples(static_cast<int>(first_sample) + end);
      if (sample.document() != index) break;
      const v1::SampleResult& row = result(end);
      HC_RETURN_IF_ERROR(CheckRow(sample, row, heads, !row.mask().empty()));
      HC_RETURN_IF_ERROR(PlaceChoices(sample, row, &log_likelihoods));
      if (row.log_likelihoods_size() > 0) text += row.log_likelihoods(0);
      greedy = greedy && row.greedy_size() > 0 && row.greedy(0);
      finite = finite && !row.non_finite();
      share += ShareZeroed(manifest, row, heads);
    }
    DocumentOutcome outcome;
    if (manifest.has_generation()) {
      HC_ASSIGN_OR_RETURN(outcome.decision, DecideText(judges, document, result(begin), finite));
    } else if (ScoresText(manifest)) {
      outcome.decision = DecideLikelihood(text, greedy && !IsRolling(manifest), finite);
      outcome.decision.correct_by = CorrectBy(manifest, outcome.decision);
    } else {
      outcome.decision = Decide(document, log_likelihoods, finite);
      outcome.decision.correct_by = CorrectBy(manifest, outcome.decision);
    }
    outcome.share_zeroed = share / (end - begin);
    const bool has_gold = document.gold() >= 0 && outcome.decision.finite &&
                          document.gold() < static_cast<int>(log_likelihoods.size());
    outcome.gold_log_likelihood = !has_gold ? std::numeric_limits<double>::quiet_NaN()
                                  : ScoresText(manifest)
                                      ? text
                                      : log_likelihoods[static_cast<size_t>(document.gold())];
    visit(index, outcome);
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace headcount::results
