// See samples.h.

#include "server/results/samples.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/records.h"
#include "server/results/rule_index.h"

namespace headcount::results {
namespace {

constexpr const char* kBaselineLabel = "baseline";

const v1::StagePlan& PlanOf(const JobResults& results, store::Stage stage) {
  return stage == store::Stage::kScore ? results.score->plan : results.ablate->plan;
}

// The sample blocks that touch [first, end), as [first block, end block).
std::pair<int64_t, int64_t> BlocksOf(const v1::StagePlan& plan, int64_t first, int64_t end) {
  const auto& blocks = plan.sample_blocks();
  const auto begin =
      std::partition_point(blocks.begin(), blocks.end(), [first](const v1::SampleBlock& block) {
        return block.first_sample() + block.samples() <= first;
      });
  const auto stop = std::partition_point(begin, blocks.end(), [end](const v1::SampleBlock& block) {
    return block.first_sample() < end;
  });
  return {begin - blocks.begin(), stop - blocks.begin()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleStream>> SampleStream::Open(
    store::JobStore& jobs, store::ArtifactStore& artifacts, const v1::ListSamplesRequest& request) {
  if (request.with_text()) return UnimplementedField("with_text");
  if (request.first_sample() < 0) {
    return InvalidField("first_sample", absl::StrCat(request.first_sample()), "must be 0 or more");
  }
  if (request.max_samples() < 0) {
    return InvalidField("max_samples", absl::StrCat(request.max_samples()), "must be 0 or more");
  }
  std::unique_ptr<SampleStream> stream(new SampleStream(jobs, artifacts));
  HC_ASSIGN_OR_RETURN(stream->results_, OpenResults(jobs, request.job()));
  const JobResults& results = stream->results_;
  const bool stored = (results.score.has_value() && results.score->done_units > 0) ||
                      (results.ablate.has_value() && results.ablate->done_units > 0);
  if (!stored) return ResultsNotReady(request.job(), "samples");
  HC_ASSIGN_OR_RETURN(stream->manifest_, ReadManifest(artifacts, results.manifest_digest));
  const int64_t samples = stream->manifest_->samples_size();
  if (request.first_sample() >= samples) {
    return OutOfRange("first_sample", request.first_sample(),
                      absl::StrCat("the job has ", samples, " samples"));
  }
  stream->first_sample_ = request.first_sample();
  stream->end_sample_ = request.max_samples() == 0
                            ? samples
                            : std::min(samples - request.first_sample(), request.max_samples()) +
                                  request.first_sample();
  HC_RETURN_IF_ERROR(stream->AddPlaces(request));
  return stream;
}

absl::Status SampleStream::AddPlaces(const v1::ListSamplesRequest& request) {
  std::vector<int> rules(request.rules().begin(), request.rules().end());
  if (rules.empty()) {
    const int ablate_rules = results_.ablate.has_value() ? results_.ablate->plan.rules_size() -
                                                               BaselineRules(results_.ablate->plan)
                                                         : 0;
    for (int rule = kBaselineRule; rule < ablate_rules; ++rule) rules.push_back(rule);
  }
  std::sort(rules.begin(), rules.end());
  rules.erase(std::unique(rules.begin(), rules.end()), rules.end());
  for (const int rule : rules) {
    HC_ASSIGN_OR_RETURN(std::optional<Place> place, PlaceOf(rule));
    if (place) places_.push_back(*std::move(place));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<SampleStream::Place>> SampleStream::PlaceOf(int shown_rule) const {
  if (shown_rule == kBaselineRule && ScoreStageIsBaseline(results_, *manifest_)) {
    Place place;
    place.shown_rule = kBaselineRule;
    place.stage = store::Stage::kScore;
    place.label = kBaselineLabel;
    return place;
  }
  if (!results_.ablate.has_value()) {
    if (results_.job.spec_case() == v1::Job::kScore) {
      return OutOfRange("rules", shown_rule, "a score job has the baseline, -1, alone");
    }
    return ResultsNotReady(results_.job.name(), "ablated samples");
  }
  const v1::StagePlan& plan = results_.ablate->plan;
  const int stage_rule = StageRule(plan, shown_rule);
  if (shown_rule < kBaselineRule || stage_rule >= plan.rules_size()) {
    return OutOfRange(
        "rules", shown_rule,
        absl::StrCat("the job has rules -1 to ", ShownRule(plan, plan.rules_size()) - 1));
  }
  if (stage_rule < 0) return std::nullopt;  // a job without a baseline of its own
  Place place;
  place.shown_rule = shown_rule;
  place.stage_rule = stage_rule;
  place.listed = !plan.units().empty();
  if (place.listed) {
    place.units = ListedUnits(stage_rule);
  } else {
    place.first_unit = int64_t{stage_rule / plan.rules_per_unit()} * plan.sample_blocks_size();
    place.rule_in_unit = stage_rule % plan.rules_per_unit();
  }
  place.label = shown_rule == kBaselineRule ? kBaselineLabel : plan.rules(stage_rule).label();
  return place;
}

absl::StatusOr<std::optional<v1::SampleRecord>> SampleStream::Next() {
  while (records_.empty()) {
    if (place_ == places_.size()) return std::nullopt;
    HC_ASSIGN_OR_RETURN(const std::optional<store::ChunkRecord> record, NextUnit(places_[place_]));
    if (record) {
      HC_RETURN_IF_ERROR(ReadUnit(*record));
    } else {
      cursor_.reset();
      listed_ = 0;
      ++place_;
    }
  }
  v1::SampleRecord next = std::move(records_.front());
  records_.pop_front();
  return next;
}

std::vector<int64_t> SampleStream::ListedUnits(int stage_rule) const {
  std::vector<std::pair<int64_t, int64_t>> units;  // first sample, unit
  const v1::StagePlan& plan = results_.ablate->plan;
  for (int64_t u = 0; u < plan.units_size(); ++u) {
    const v1::UnitRange& unit = plan.units(static_cast<int>(u));
    if (!HoldsRules(unit, stage_rule) || unit.first_sample() >= end_sample_ ||
        unit.first_sample() + unit.samples() <= first_sample_) {
      continue;
    }
    units.emplace_back(unit.first_sample(), u);
  }
  std::sort(units.begin(), units.end());
  std::vector<int64_t> ordered;
  for (const auto& [first, unit] : units) ordered.push_back(unit);
  return ordered;
}

absl::StatusOr<std::optional<store::ChunkRecord>> SampleStream::NextUnit(const Place& place) {
  if (!place.listed) {
    if (!cursor_) {
      const auto [first, end] = BlocksOf(PlanOf(results_, place.stage), first_sample_, end_sample_);
      cursor_.emplace(jobs_, results_.job.name(), place.stage, place.first_unit + first,
                      place.first_unit + end);
    }
    return cursor_->Next();
  }
  while (listed_ < place.units.size()) {
    const int64_t unit = place.units[listed_++];
    HC_ASSIGN_OR_RETURN(std::vector<store::ChunkRecord> found,
                        jobs_.ListChunks(results_.job.name(), place.stage, unit, 1));
    if (!found.empty() && found.front().unit == unit) return std::move(found.front());
  }
  return std::nullopt;
}

absl::Status SampleStream::ReadUnit(const store::ChunkRecord& record) {
  const Place& place = places_[place_];
  const std::string& job = results_.job.name();
  if (place.stage == store::Stage::kScore) {
    v1::ScoreChunk chunk;
    HC_RETURN_IF_ERROR(ReadChunk(artifacts_, job, record, format::FrameKind::kScoreChunk, &chunk));
    return AddRecords(chunk, 0);
  }
  v1::AblateChunk chunk;
  HC_RETURN_IF_ERROR(ReadChunk(artifacts_, job, record, format::FrameKind::kAblateChunk, &chunk));
  const int rule = place.listed ? place.stage_rule - chunk.first_rule() : place.rule_in_unit;
  return AddRecords(chunk, rule * chunk.samples());
}

absl::Status SampleStream::AddText(const AnswerJudges& judges, const v1::ManifestDocument& document,
                                   const v1::SampleResult& row, v1::SampleRecord* record) const {
  *record->mutable_generated_tokens() = row.tokens();
  record->set_text(row.text());
  record->set_gold_text(document.gold_text());
  HC_ASSIGN_OR_RETURN(const std::vector<tasks::Answer> answers,
                      judges.Judge(row.text(), document.gold_text()));
  for (size_t m = 0; m < answers.size(); ++m) {
    v1::Answer* answer = record->add_answers();
    answer->set_metric(manifest_->metrics(static_cast<int>(m)));
    answer->set_text(answers[m].text);
    answer->set_correct(answers[m].correct && !row.non_finite());
  }
  return absl::OkStatus();
}

template <typename Chunk>
absl::Status SampleStream::AddRecords(const Chunk& chunk, int first_row) {
  if (first_row < 0 || chunk.results_size() - first_row < chunk.samples()) {
    return absl::DataLossError(absl::StrCat(results_.job.name(), ": a chunk of ", chunk.samples(),
                                            " samples has ", chunk.results_size(), " rows"));
  }
  const Place& place = places_[place_];
  const int64_t heads = int64_t{chunk.layers()} * chunk.heads();
  const auto row = [&](int i) -> const v1::SampleResult& { return chunk.results(first_row + i); };
  HC_ASSIGN_OR_RETURN(const AnswerJudges judges, AnswerJudges::Make(*manifest_));
  std::unordered_map<int64_t, Decision> decisions;
  HC_RETURN_IF_ERROR(ForEachDocument(*manifest_, chunk.first_sample(), chunk.samples(), heads, row,
                                     [&](int64_t document, const DocumentOutcome& outcome) {
                                       decisions.emplace(document, outcome.decision);
                                     }));
  for (int i = 0; i < chunk.samples(); ++i) {
    const int64_t index = chunk.first_sample() + i;
    if (index < first_sample_ || index >= end_sample_) continue;
    const v1::ManifestSample& sample = manifest_->samples(static_cast<int>(index));
    const v1::ManifestDocument& document =
        manifest_->documents(static_cast<int>(sample.document()));
    const Decision& decision = decisions[sample.document()];
    v1::SampleRecord& record = records_.emplace_back();
    record.set_sample(sample.id());
    record.set_document(document.id());
    record.set_rule(place.shown_rule);
    record.set_rule_label(place.label);
    *record.mutable_log_likelihoods() = row(i).log_likelihoods();
    *record.mutable_greedy() = row(i).greedy();
    record.set_prediction(decision.prediction);
    record.set_prediction_norm(decision.prediction_norm);
    record.set_gold(document.gold());
    record.set_correct(decision.correct);
    record.set_correct_norm(decision.correct_norm);
    record.set_share_zeroed(ShareZeroed(*manifest_, row(i), heads));
    if (decision.answered) HC_RETURN_IF_ERROR(AddText(judges, document, row(i), &record));
    record.set_mask(row(i).mask());
    record.set_finite(!row(i).non_finite());
    const int prefix = sample.group() >= 0 && sample.group() < manifest_->groups_size()
                           ? manifest_->groups(static_cast<int>(sample.group())).prefix_size()
                           : 0;
    record.set_tokens(prefix + sample.suffix_size());
  }
  return absl::OkStatus();
}

}  // namespace headcount::results
