// See rule_outcomes.h.

#include "server/results/rule_outcomes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/results/rule_index.h"

namespace headcount::results {
namespace {

// Adds one rule's rows of a chunk.
template <typename Chunk>
absl::Status AddRows(const v1::Manifest& manifest, const Chunk& chunk, int first_row, int metric,
                     RuleOutcomes* outcomes) {
  return ForEachDocument(
      manifest, chunk.first_sample(), chunk.samples(), int64_t{chunk.layers()} * chunk.heads(),
      [&](int i) -> const v1::SampleResult& { return chunk.results(first_row + i); },
      [&](int64_t document, const DocumentOutcome& outcome) {
        std::optional<DocumentOutcome>& place = outcomes->documents[static_cast<size_t>(document)];
        outcomes->stored += place.has_value() ? 0 : 1;
        place = outcome;
        place->decision.correct = (outcome.decision.correct_by >> metric & 1) != 0;
      });
}

absl::Status WrongRows(const std::string& job, const store::ChunkRecord& record, int64_t rows,
                       int64_t expected) {
  return absl::DataLossError(absl::StrCat(job, ", ", std::string(store::StageName(record.stage)),
                                          " unit ", record.unit, " has ", rows, " rows, expected ",
                                          expected));
}

}  // namespace

RuleOutcomes OutcomeReader::Empty(int shown_rule) const {
  RuleOutcomes outcomes;
  outcomes.shown_rule = shown_rule;
  outcomes.documents.resize(static_cast<size_t>(manifest_.documents_size()));
  return outcomes;
}

absl::StatusOr<RuleOutcomes> OutcomeReader::Baseline() {
  if (results_.ablate.has_value() && BaselineRules(results_.ablate->plan) > 0) {
    HC_ASSIGN_OR_RETURN(std::vector<RuleOutcomes> block, ReadBlock(0));
    if (!block.empty()) return std::move(block.front());
  }
  if (!ScoreStageIsBaseline(results_, manifest_)) return Empty(kBaselineRule);
  RuleOutcomes outcomes = Empty(kBaselineRule);
  const std::string& job = results_.job.name();
  ChunkCursor cursor(jobs_, job, store::Stage::kScore, 0, results_.score->units);
  while (true) {
    HC_ASSIGN_OR_RETURN(const std::optional<store::ChunkRecord> record, cursor.Next());
    if (!record) break;
    v1::ScoreChunk chunk;
    HC_RETURN_IF_ERROR(ReadChunk(artifacts_, job, *record, format::FrameKind::kScoreChunk, &chunk));
    if (chunk.results_size() != chunk.samples()) {
      return WrongRows(job, *record, chunk.results_size(), chunk.samples());
    }
    HC_RETURN_IF_ERROR(AddRows(manifest_, chunk, 0, metric_, &outcomes));
  }
  outcomes.complete = outcomes.stored == manifest_.documents_size();
  return outcomes;
}

int64_t OutcomeReader::rule_blocks() const {
  if (!results_.ablate.has_value() || results_.ablate->plan.rules_per_unit() < 1) return 0;
  const int per_unit = results_.ablate->plan.rules_per_unit();
  return (results_.ablate->plan.rules_size() + per_unit - 1) / per_unit;
}

bool OutcomeReader::HoldsUnit(int64_t unit, int first_rule, int rules) const {
  const v1::StagePlan& plan = results_.ablate->plan;
  if (unit >= plan.units_size()) return false;
  const v1::UnitRange& range = plan.units(static_cast<int>(unit));
  return HoldsRules(range, first_rule, rules);
}

absl::StatusOr<std::vector<RuleOutcomes>> OutcomeReader::RuleBlock(int64_t block) {
  HC_ASSIGN_OR_RETURN(std::vector<RuleOutcomes> outcomes, ReadBlock(block));
  if (!outcomes.empty() && outcomes.front().shown_rule == kBaselineRule) {
    outcomes.erase(outcomes.begin());
  }
  return outcomes;
}

absl::StatusOr<std::vector<RuleOutcomes>> OutcomeReader::ReadBlock(int64_t block) {
  const v1::StagePlan& plan = results_.ablate->plan;
  const std::string& job = results_.job.name();
  const int first_rule = static_cast<int>(block) * plan.rules_per_unit();
  const int rules = std::min(plan.rules_per_unit(), plan.rules_size() - first_rule);
  std::vector<RuleOutcomes> outcomes;
  for (int r = 0; r < rules; ++r) outcomes.push_back(Empty(ShownRule(plan, first_rule + r)));
  const bool listed = !plan.units().empty();
  const int64_t sample_blocks = plan.sample_blocks_size();
  ChunkCursor cursor(jobs_, job, store::Stage::kAblate, listed ? 0 : block * sample_blocks,
                     listed ? plan.units_size() : (block + 1) * sample_blocks);
  while (true) {
    HC_ASSIGN_OR_RETURN(const std::optional<store::ChunkRecord> record, cursor.Next());
    if (!record) break;
    if (listed && !HoldsUnit(record->unit, first_rule, rules)) continue;
    v1::AblateChunk chunk;
    HC_RETURN_IF_ERROR(
        ReadChunk(artifacts_, job, *record, format::FrameKind::kAblateChunk, &chunk));
    // A listed unit may hold a part of the block, or of its neighbour too.
    const bool fits = listed || (chunk.rules() == rules && chunk.first_rule() == first_rule);
    const int64_t expected = int64_t{chunk.samples()} * (fits ? chunk.rules() : rules);
    if (!fits || chunk.results_size() != expected) {
      return WrongRows(job, *record, chunk.results_size(), expected);
    }
    for (int r = 0; r < chunk.rules(); ++r) {
      const int place = chunk.first_rule() + r - first_rule;
      if (place < 0 || place >= rules) continue;
      HC_RETURN_IF_ERROR(AddRows(manifest_, chunk, r * chunk.samples(), metric_,
                                 &outcomes[static_cast<size_t>(place)]));
    }
  }
  for (RuleOutcomes& rule : outcomes) {
    rule.complete = rule.stored == manifest_.documents_size();
  }
  return outcomes;
}

}  // namespace headcount::results
