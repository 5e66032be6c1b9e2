// See chunk_builder.h.

#include "worker/agent/chunk_builder.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/catalog/measurements.h"
#include "common/format/frame.h"
#include "worker/agent/next_tokens.h"

namespace headcount::agent {
namespace {

template <typename T>
void AppendLittleEndian(std::span<const T> values, std::string* out) {
  static_assert(sizeof(T) == 4);
  for (const T value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(bits >> (8 * i)));
  }
}

absl::Status Expect(const char* what, size_t is, size_t expected) {
  if (is == expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("engine gave ", is, " ", what, " where ", expected, " were due"));
}

v1::SampleResult ToProto(const engine::RowResult& row, bool with_mask) {
  v1::SampleResult out;
  out.mutable_log_likelihoods()->Add(row.log_likelihoods.begin(), row.log_likelihoods.end());
  for (const uint8_t greedy : row.greedy) out.add_greedy(greedy != 0);
  if (with_mask) out.set_mask(row.mask.data(), row.mask.size());
  if (!row.finite) {
    out.set_non_finite(true);
    out.set_non_finite_layer(row.non_finite_layer);
    out.set_non_finite_head(row.non_finite_head);
  }
  return out;
}

// Every measurement of every row, [row][layer][head].
absl::Status AddSlabs(const engine::UnitResult& result, size_t heads,
                      google::protobuf::RepeatedPtrField<v1::Slab>* slabs) {
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    v1::Slab* slab = slabs->Add();
    slab->set_measurement(std::string(info.id));
    const size_t offset = static_cast<size_t>(info.measurement) * heads;
    for (const engine::RowResult& row : result.rows) {
      HC_RETURN_IF_ERROR(
          Expect("measurements", row.measurements.size(), heads * catalog::kMeasurementCount));
      AppendLittleEndian(std::span(row.measurements).subspan(offset, heads),
                         slab->mutable_values());
    }
  }
  return absl::OkStatus();
}

void SetRun(const engine::UnitResult& result, v1::RunInfo run, v1::RunInfo* out) {
  run.set_tokens(result.tokens);
  run.set_oom_backoffs(result.oom_backoffs);
  *out = std::move(run);
}

// `first`: the same sample under the unit's first rule.
absl::Status AddRecorded(const Recording& recording, const engine::RowResult& row,
                         const engine::RowResult& first, const catalog::ModelConfig& model,
                         v1::SampleResult* out) {
  AppendLittleEndian(std::span(row.first_weights), out->mutable_first_weights());
  const int kept = recording.what.next_tokens();
  if (kept == 0) return absl::OkStatus();
  HC_RETURN_IF_ERROR(
      Expect("next tokens", row.next_token.size(), static_cast<size_t>(model.vocab_size)));
  HC_ASSIGN_OR_RETURN(
      *out->mutable_next_tokens(),
      SummariseNextTokens(row.next_token, first.next_token, kept, recording.decode));
  return absl::OkStatus();
}

// What the row's input tokens say, each by itself.
absl::Status AddInputTexts(const Recording& recording, size_t row, v1::SampleResult* out) {
  for (const auto& tokens : {recording.unit.prefix, recording.unit.rows[row].suffix}) {
    for (const int32_t& token : tokens) {
      HC_ASSIGN_OR_RETURN(*out->add_input_texts(),
                          recording.decode({&token, 1}, /*skip_special=*/false));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::AblateChunk> MakeAblateChunk(const v1::UnitRange& range,
                                                std::vector<v1::SampleResult> rows,
                                                const catalog::ModelConfig& model,
                                                v1::RunInfo run) {
  const auto samples = static_cast<size_t>(range.samples());
  HC_RETURN_IF_ERROR(Expect("rows", rows.size(), samples * range.rules()));
  const size_t heads = static_cast<size_t>(model.layers) * model.heads;
  v1::AblateChunk chunk;
  chunk.set_first_sample(range.first_sample());
  chunk.set_samples(range.samples());
  chunk.set_first_rule(range.first_rule());
  chunk.set_rules(range.rules());
  chunk.set_layers(model.layers);
  chunk.set_heads(model.heads);
  std::vector<uint32_t> zeroed(static_cast<size_t>(range.rules()) * heads);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string& mask = rows[i].mask();
    HC_RETURN_IF_ERROR(Expect("mask bytes", mask.size(), (heads + 7) / 8));
    uint32_t* counts = zeroed.data() + (i / samples) * heads;
    for (size_t h = 0; h < heads; ++h) {
      counts[h] += (static_cast<unsigned char>(mask[h / 8]) >> (h % 8)) & 1;
    }
    *chunk.add_results() = std::move(rows[i]);
  }
  AppendLittleEndian(std::span<const uint32_t>(zeroed), chunk.mutable_zeroed());
  *chunk.mutable_run() = std::move(run);
  return chunk;
}

}  // namespace

absl::StatusOr<std::string> BuildScoreChunk(const v1::UnitRange& range,
                                            const engine::UnitResult& result,
                                            const catalog::ModelConfig& model, v1::RunInfo run) {
  HC_RETURN_IF_ERROR(Expect("rows", result.rows.size(), range.samples()));
  const size_t heads = static_cast<size_t>(model.layers) * model.heads;
  v1::ScoreChunk chunk;
  chunk.set_first_sample(range.first_sample());
  chunk.set_samples(range.samples());
  chunk.set_layers(model.layers);
  chunk.set_heads(model.heads);
  chunk.set_head_dim(model.head_dim);
  HC_RETURN_IF_ERROR(AddSlabs(result, heads, chunk.mutable_slabs()));
  for (const engine::RowResult& row : result.rows) *chunk.add_results() = ToProto(row, false);
  if (result.head_sums.has_value()) {
    const engine::HeadSums& sums = *result.head_sums;
    v1::HeadSumSlab* out = chunk.mutable_head_sums();
    AppendLittleEndian(std::span(sums.rest), out->mutable_rest());
    AppendLittleEndian(std::span(sums.first), out->mutable_first());
    out->set_rest_count(sums.rest_count);
    out->set_first_count(sums.first_count);
  }
  SetRun(result, std::move(run), chunk.mutable_run());
  return format::Frame(format::FrameKind::kScoreChunk, chunk);
}

absl::StatusOr<std::string> BuildAblateChunk(const v1::UnitRange& range,
                                             const engine::UnitResult& result,
                                             const catalog::ModelConfig& model, v1::RunInfo run,
                                             const Recording* recording) {
  const auto samples = static_cast<size_t>(range.samples());
  const size_t heads = static_cast<size_t>(model.layers) * model.heads;
  HC_RETURN_IF_ERROR(Expect("rows", result.rows.size(), samples * range.rules()));
  std::vector<v1::SampleResult> rows;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    v1::SampleResult& out = rows.emplace_back(ToProto(result.rows[i], true));
    if (recording == nullptr) continue;
    const engine::RowResult& first = result.rows[i % samples];
    HC_RETURN_IF_ERROR(AddRecorded(*recording, result.rows[i], first, model, &out));
    if (i < samples && recording->what.next_tokens() > 0) {
      HC_RETURN_IF_ERROR(AddInputTexts(*recording, i, &out));
    }
  }
  SetRun(result, run, &run);
  HC_ASSIGN_OR_RETURN(v1::AblateChunk chunk,
                      MakeAblateChunk(range, std::move(rows), model, std::move(run)));
  if (recording != nullptr && recording->what.measurements()) {
    HC_RETURN_IF_ERROR(AddSlabs(result, heads, chunk.mutable_slabs()));
  }
  return format::Frame(format::FrameKind::kAblateChunk, chunk);
}

absl::StatusOr<std::string> BuildAblateChunk(const v1::UnitRange& range,
                                             std::vector<v1::SampleResult> rows,
                                             const catalog::ModelConfig& model, v1::RunInfo run) {
  HC_ASSIGN_OR_RETURN(const v1::AblateChunk chunk,
                      MakeAblateChunk(range, std::move(rows), model, std::move(run)));
  return format::Frame(format::FrameKind::kAblateChunk, chunk);
}

}  // namespace headcount::agent
