// See chunk_check.h.

#include "server/queue/chunk_check.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/measurements.h"
#include "common/catalog/numerics_version.h"
#include "common/format/frame.h"
#include "server/plan/manifest_check.h"
#include "server/results/rule_index.h"
#include "server/results/unit_counts.h"

namespace headcount::queue {
namespace {

absl::Status Bad(absl::Status status) { return WithReason(std::move(status), "BAD_CHUNK"); }

absl::Status Expect(const char* field, int64_t is, int64_t expected) {
  if (is == expected) return absl::OkStatus();
  return Bad(absl::InvalidArgumentError(
      absl::StrCat("chunk ", field, ": must be ", expected, ", is ", is)));
}

// The bytes arrived as they were sent, so a broken frame is the sender's and no resend helps.
absl::Status Open(format::FrameKind kind, std::string_view bytes,
                  google::protobuf::MessageLite* payload) {
  const absl::Status opened = format::Unframe(kind, bytes, payload);
  if (!absl::IsDataLoss(opened)) return opened;
  return Bad(absl::InvalidArgumentError(opened.message()));
}

template <typename Chunk>
absl::Status CheckShape(const Chunk& chunk, const v1::UnitRange& range,
                        const catalog::ModelConfig& model) {
  HC_RETURN_IF_ERROR(Expect("first_sample", chunk.first_sample(), range.first_sample()));
  HC_RETURN_IF_ERROR(Expect("samples", chunk.samples(), range.samples()));
  HC_RETURN_IF_ERROR(Expect("layers", chunk.layers(), model.layers));
  HC_RETURN_IF_ERROR(Expect("heads", chunk.heads(), model.heads));
  if (chunk.run().numerics_version() != catalog::kNumericsVersion) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "chunk run.numerics_version: must be ", catalog::kNumericsVersion,
                          ", is ", chunk.run().numerics_version())),
                      "NUMERICS_VERSION");
  }
  return absl::OkStatus();
}

absl::Status CheckSlabs(const google::protobuf::RepeatedPtrField<v1::Slab>& slabs, int64_t floats) {
  std::set<std::string> seen;
  for (const v1::Slab& slab : slabs) {
    HC_RETURN_IF_ERROR(Expect(absl::StrCat("slab ", slab.measurement(), " bytes").c_str(),
                              static_cast<int64_t>(slab.values().size()), floats * 4));
    if (!seen.insert(slab.measurement()).second) {
      return Bad(absl::InvalidArgumentError(
          absl::StrCat("chunk slab ", slab.measurement(), ": is there twice")));
    }
  }
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    if (seen.contains(std::string(info.id))) continue;
    return Bad(absl::InvalidArgumentError(
        absl::StrCat("chunk slab ", std::string(info.id), ": is missing")));
  }
  return absl::OkStatus();
}

// What the plan asks to be kept of each row is there.
absl::Status CheckRecorded(const v1::AblateChunk& chunk, const v1::RowRecord& record,
                           const v1::UnitRange& range, const v1::Manifest& manifest,
                           int64_t heads) {
  if (record.measurements()) {
    HC_RETURN_IF_ERROR(CheckSlabs(chunk.slabs(), int64_t{range.rules()} * range.samples() * heads));
  }
  for (int row = 0; row < chunk.results_size(); ++row) {
    const v1::SampleResult& result = chunk.results(row);
    const v1::NextTokens& next = result.next_tokens();
    if (record.next_tokens() > 0 && !result.non_finite()) {
      HC_RETURN_IF_ERROR(
          Expect("next_tokens.log_likelihoods", next.log_likelihoods_size(), next.tokens_size()));
      HC_RETURN_IF_ERROR(Expect("next_tokens.texts", next.texts_size(), next.tokens_size()));
    }
    if (row >= range.samples()) continue;
    const v1::ManifestSample& sample =
        manifest.samples(static_cast<int>(range.first_sample()) + row);
    const int64_t tokens =
        manifest.groups(static_cast<int>(sample.group())).prefix_size() + sample.suffix_size();
    if (record.next_tokens() > 0) {
      HC_RETURN_IF_ERROR(Expect("input_texts", result.input_texts_size(), tokens));
    }
    if (record.first_weights()) {
      HC_RETURN_IF_ERROR(Expect("first_weights bytes",
                                static_cast<int64_t>(result.first_weights().size()),
                                heads * tokens * 4));
    }
  }
  return absl::OkStatus();
}

// Counting checks each row's result; what it finds wrong is the chunk's fault, unless plan and
// manifest do not fit each other.
absl::StatusOr<CheckedChunk> Counted(absl::StatusOr<v1::UnitCounts> counts,
                                     const v1::RunInfo& run) {
  if (absl::IsInvalidArgument(counts.status())) return Bad(counts.status());
  if (absl::IsInternal(counts.status())) return absl::DataLossError(counts.status().message());
  HC_RETURN_IF_ERROR(counts.status());
  return CheckedChunk{.counts = *std::move(counts), .run = run};
}

// The block of samples that a range covers, as counting wants it.
v1::SampleBlock BlockOf(const v1::UnitRange& range, const v1::Manifest& manifest) {
  v1::SampleBlock block;
  block.set_first_sample(range.first_sample());
  block.set_samples(range.samples());
  int documents = 0;
  for (int64_t i = range.first_sample(); i < range.first_sample() + range.samples(); ++i) {
    const int sample = static_cast<int>(i);
    const bool last =
        sample + 1 == manifest.samples_size() ||
        manifest.samples(sample + 1).document() != manifest.samples(sample).document();
    if (last) ++documents;
  }
  block.set_documents(documents);
  return block;
}

absl::Status CheckRange(const v1::UnitRange& range, const v1::Manifest& manifest) {
  if (range.first_sample() + range.samples() <= manifest.samples_size()) return absl::OkStatus();
  return absl::DataLossError("the stage's plan and its manifest do not fit");
}

}  // namespace

absl::StatusOr<CheckedChunk> CheckManifestChunk(std::string_view bytes,
                                                const catalog::ModelConfig& model) {
  v1::Manifest manifest;
  HC_RETURN_IF_ERROR(Open(format::FrameKind::kManifest, bytes, &manifest));
  HC_RETURN_IF_ERROR(
      plan::CheckManifest(manifest, model.vocab_size, model.max_position_embeddings));
  return CheckedChunk{};
}

absl::StatusOr<CheckedChunk> CheckScoreChunk(std::string_view bytes, const v1::UnitRange& range,
                                             const catalog::ModelConfig& model,
                                             const v1::Manifest& manifest) {
  HC_RETURN_IF_ERROR(CheckRange(range, manifest));
  v1::ScoreChunk chunk;
  HC_RETURN_IF_ERROR(Open(format::FrameKind::kScoreChunk, bytes, &chunk));
  HC_RETURN_IF_ERROR(CheckShape(chunk, range, model));
  HC_RETURN_IF_ERROR(Expect("head_dim", chunk.head_dim(), model.head_dim));
  const int64_t heads = int64_t{model.layers} * model.heads;
  HC_RETURN_IF_ERROR(CheckSlabs(chunk.slabs(), range.samples() * heads));
  if (chunk.has_head_sums()) {
    const int64_t sum_bytes = heads * model.head_dim * 4;
    HC_RETURN_IF_ERROR(Expect("head_sums.rest bytes",
                              static_cast<int64_t>(chunk.head_sums().rest().size()), sum_bytes));
    HC_RETURN_IF_ERROR(Expect("head_sums.first bytes",
                              static_cast<int64_t>(chunk.head_sums().first().size()), sum_bytes));
  }
  return Counted(results::CountUnit(manifest, BlockOf(range, manifest), chunk), chunk.run());
}

absl::StatusOr<CheckedChunk> CheckAblateChunk(std::string_view bytes, const v1::UnitRange& range,
                                              const v1::StagePlan& plan,
                                              const catalog::ModelConfig& model,
                                              const v1::Manifest& manifest) {
  HC_RETURN_IF_ERROR(CheckRange(range, manifest));
  v1::AblateChunk chunk;
  HC_RETURN_IF_ERROR(Open(format::FrameKind::kAblateChunk, bytes, &chunk));
  HC_RETURN_IF_ERROR(CheckShape(chunk, range, model));
  HC_RETURN_IF_ERROR(Expect("first_rule", chunk.first_rule(), range.first_rule()));
  HC_RETURN_IF_ERROR(Expect("rules", chunk.rules(), range.rules()));
  HC_RETURN_IF_ERROR(Expect("zeroed bytes", static_cast<int64_t>(chunk.zeroed().size()),
                            int64_t{range.rules()} * model.layers * model.heads * 4));
  HC_RETURN_IF_ERROR(
      CheckRecorded(chunk, plan.record(), range, manifest, int64_t{model.layers} * model.heads));
  return Counted(
      results::CountUnit(manifest, BlockOf(range, manifest), chunk, results::BaselineRules(plan)),
      chunk.run());
}

}  // namespace headcount::queue
