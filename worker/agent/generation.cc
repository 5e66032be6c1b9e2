// See generation.h.

#include "worker/agent/generation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/agent/chunk_builder.h"

namespace headcount::agent {
namespace {

using engine::GeneratedRow;
using engine::GenerateResult;
using engine::GenerateRow;
using engine::GenerateUnit;

engine::MaskUpdate MaskUpdateOf(const v1::ResolvedRule& rule) {
  return rule.mask_update() == v1::MASK_UPDATE_PROMPT_ONCE ? engine::MaskUpdate::kPromptOnce
                                                           : engine::MaskUpdate::kEveryStep;
}

// Rule-major rows; each of the unit's rules continues every prompt.
struct Rows {
  std::vector<std::vector<int32_t>> prompts;  // one a sample
  std::vector<const v1::ResolvedRule*> rules;
  std::vector<GeneratedRow> results;  // [rule][sample]
};

// Runs the rules of one mask update side by side.
absl::Status Generate(engine::Engine& engine, const StopText& stop, const v1::UnitRange& range,
                      const SampleRange& samples, std::span<const SharedMeans> means,
                      engine::MaskUpdate update, const engine::CancelFlag& cancel,
                      engine::BatchObserver* observer, Rows* rows, v1::RunInfo* run) {
  GenerateUnit unit;
  std::vector<size_t> places;  // of the unit's rows among rows->results
  for (size_t r = 0; r < rows->rules.size(); ++r) {
    const v1::ResolvedRule& rule = *rows->rules[r];
    if (MaskUpdateOf(rule) != update) continue;
    HC_ASSIGN_OR_RETURN(engine::Rule built, BuildRule(rule, engine.config(), means));
    unit.rules.push_back(std::move(built));
    for (int i = 0; i < range.samples(); ++i) {
      GenerateRow row;
      row.prompt = rows->prompts[static_cast<size_t>(i)];
      row.rule = static_cast<int>(unit.rules.size()) - 1;
      row.sample = samples.at(range.first_sample() + i).id();
      unit.rows.push_back(row);
      places.push_back(r * static_cast<size_t>(range.samples()) + static_cast<size_t>(i));
    }
  }
  if (unit.rows.empty()) return absl::OkStatus();
  const v1::Generation& generation = *samples.generation;
  unit.max_new_tokens = generation.max_new_tokens();
  unit.stop_tokens.assign(generation.stop_tokens().begin(), generation.stop_tokens().end());
  unit.mask_update = update;
  unit.ended = [&stop](size_t, std::span<const int32_t> tokens) { return stop.Ended(tokens); };
  HC_ASSIGN_OR_RETURN(GenerateResult result, engine.Generate(unit, cancel, observer));
  if (result.rows.size() != unit.rows.size()) {
    return absl::InternalError(absl::StrCat("engine gave ", result.rows.size(), " rows where ",
                                            unit.rows.size(), " were due"));
  }
  for (size_t i = 0; i < places.size(); ++i) rows->results[places[i]] = std::move(result.rows[i]);
  run->set_oom_backoffs(run->oom_backoffs() + result.oom_backoffs);
  return absl::OkStatus();
}

// The mean share of heads over the steps, and the mask of the last one.
void SetMasks(const GeneratedRow& row, size_t heads, v1::SampleResult* out) {
  const size_t bytes = (heads + 7) / 8;
  int64_t zeroed = 0;
  for (const std::vector<uint8_t>& mask : row.masks) {
    for (const uint8_t byte : mask) zeroed += std::popcount(byte);
  }
  const size_t steps = row.masks.size();
  out->set_share_zeroed(steps > 0 ? static_cast<double>(zeroed) / static_cast<double>(steps * heads)
                                  : 0);
  if (steps > 0) {
    out->set_mask(row.masks.back().data(), row.masks.back().size());
  } else {
    out->set_mask(std::string(bytes, '\0'));
  }
}

}  // namespace

bool StopText::Ended(std::span<const int32_t> tokens) const {
  const auto text = decode_(tokens, /*skip_special=*/false);
  if (!text.ok()) return false;  // Cut will say so
  return std::any_of(stops_.begin(), stops_.end(), [&text](const std::string& stop) {
    return text->find(stop) != std::string::npos;
  });
}

absl::StatusOr<std::string> StopText::Cut(std::span<const int32_t> tokens) const {
  HC_ASSIGN_OR_RETURN(std::string text, decode_(tokens, /*skip_special=*/true));
  for (const std::string& stop : stops_) text.resize(std::min(text.size(), text.find(stop)));
  return text;
}

absl::StatusOr<GeneratedChunk> GenerateUnitChunk(engine::Engine& engine, const Decoder& decode,
                                                 const v1::UnitRange& range,
                                                 const SampleRange& samples,
                                                 std::span<const v1::ResolvedRule> rules,
                                                 std::span<const SharedMeans> means,
                                                 v1::RunInfo run, const engine::CancelFlag& cancel,
                                                 engine::BatchObserver* observer) {
  if (range.samples() < 1 ||
      !samples.Covers(samples.manifest_digest, range.first_sample(), range.samples())) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", range.unit(), ": samples [",
                                                   range.first_sample(), ", +", range.samples(),
                                                   ") are not at hand"));
  }
  Rows rows;
  for (int r = 0; r < range.rules(); ++r) {
    HC_ASSIGN_OR_RETURN(const v1::ResolvedRule* rule, FindRule(rules, range.first_rule() + r));
    rows.rules.push_back(rule);
  }
  for (int i = 0; i < range.samples(); ++i) {
    const v1::ManifestSample& sample = samples.at(range.first_sample() + i);
    std::vector<int32_t>& prompt = rows.prompts.emplace_back(samples.prefixes.at(sample.group()));
    prompt.insert(prompt.end(), sample.suffix().begin(), sample.suffix().end());
  }
  rows.results.resize(rows.rules.size() * rows.prompts.size());
  const v1::Generation& generation = *samples.generation;
  const StopText stop({generation.stop().begin(), generation.stop().end()}, decode);
  for (const auto update : {engine::MaskUpdate::kEveryStep, engine::MaskUpdate::kPromptOnce}) {
    HC_RETURN_IF_ERROR(
        Generate(engine, stop, range, samples, means, update, cancel, observer, &rows, &run));
  }

  GeneratedChunk chunk;
  chunk.rows = static_cast<int64_t>(rows.results.size());
  const size_t heads = static_cast<size_t>(engine.config().layers) * engine.config().heads;
  std::vector<v1::SampleResult> results;
  for (size_t i = 0; i < rows.results.size(); ++i) {
    const GeneratedRow& row = rows.results[i];
    v1::SampleResult& out = results.emplace_back();
    out.mutable_tokens()->Add(row.tokens.begin(), row.tokens.end());
    HC_ASSIGN_OR_RETURN(*out.mutable_text(), stop.Cut(row.tokens));
    SetMasks(row, heads, &out);
    if (!row.finite) {
      out.set_non_finite(true);
      out.set_non_finite_layer(-1);
      out.set_non_finite_head(-1);
    }
    chunk.tokens +=
        static_cast<int64_t>(rows.prompts[i % rows.prompts.size()].size() + row.tokens.size());
  }
  run.set_tokens(chunk.tokens);
  HC_ASSIGN_OR_RETURN(chunk.data,
                      BuildAblateChunk(range, std::move(results), engine.config(), std::move(run)));
  return chunk;
}

}  // namespace headcount::agent
