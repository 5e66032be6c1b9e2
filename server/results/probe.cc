// See probe.h.

#include "server/results/probe.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "server/results/job_results.h"
#include "server/results/records.h"
#include "server/results/rule_index.h"
#include "server/results/slabs.h"
#include "server/results/user_scores.h"

namespace headcount::results {
namespace {

// Of first weights in one answer; a message holds 4 MiB.
constexpr int64_t kMaxWeightBytes = 3 << 20;

// The scores that are asked for, and what keeps those of the job's own.
struct Wanted {
  std::vector<std::shared_ptr<const catalog::Score>> own;
  std::vector<const catalog::Score*> scores;
  std::vector<const catalog::Expression*> expressions;
};

absl::StatusOr<Wanted> WantedScores(const v1::GetProbeRequest& request, const v1::Job& job) {
  Wanted wanted;
  HC_ASSIGN_OR_RETURN(wanted.own, UserScoresOf(job.probe().user_scores(), "user_scores"));
  const auto find = [&](const std::string& name) -> absl::StatusOr<const catalog::Score*> {
    for (const auto& own : wanted.own) {
      if (own->id == name) return own.get();
    }
    return catalog::FindScore(name);
  };
  for (int i = 0; i < request.scores_size(); ++i) {
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, find(request.scores(i)));
    if (score->is_random()) {
      return InvalidField(absl::StrCat("scores[", i, "]"), request.scores(i),
                          "is drawn, not measured");
    }
    wanted.scores.push_back(score);
  }
  if (request.scores().empty()) {
    for (const catalog::Score& score : catalog::Scores()) {
      if (!score.is_random()) wanted.scores.push_back(&score);
    }
    for (const auto& own : wanted.own) wanted.scores.push_back(own.get());
  }
  for (const catalog::Score* score : wanted.scores) {
    wanted.expressions.push_back(&score->expression);
  }
  return wanted;
}

// The unit that holds the sample: there is one rule block, so units are sample blocks.
int64_t UnitOf(const v1::StagePlan& plan, int64_t sample) {
  int64_t unit = 0;
  while (unit + 1 < plan.sample_blocks_size() &&
         plan.sample_blocks(static_cast<int>(unit) + 1).first_sample() <= sample) {
    ++unit;
  }
  return unit;
}

void AddPrompt(const v1::Manifest& manifest, const v1::ManifestSample& sample,
               const v1::SampleResult& baseline, v1::Probe* answer) {
  answer->set_sample(sample.id());
  answer->set_samples(manifest.samples_size());
  answer->mutable_tokens()->MergeFrom(manifest.groups(static_cast<int>(sample.group())).prefix());
  answer->mutable_tokens()->MergeFrom(sample.suffix());
  *answer->mutable_token_texts() = baseline.input_texts();
}

void AddRun(const v1::StagePlan& plan, int stage_rule, const Wanted& wanted,
            const v1::SampleResult& row, const std::vector<std::vector<float>>& values,
            v1::Probe* answer) {
  v1::ProbeRun& run = *answer->add_runs();
  run.set_rule(ShownRule(plan, stage_rule));
  run.set_label(run.rule() == kBaselineRule ? "baseline" : plan.rules(stage_rule).label());
  run.set_share_zeroed(ShareZeroed(row.mask(), int64_t{answer->layers()} * answer->heads()));
  run.set_mask(row.mask());
  for (size_t s = 0; s < wanted.scores.size(); ++s) {
    v1::ProbeScore& score = *run.add_scores();
    score.set_score(wanted.scores[s]->id);
    score.set_unit(wanted.scores[s]->unit);
    score.set_inactive_side(wanted.scores[s]->inactive == catalog::Inactive::kBelow ? "<" : ">");
    score.mutable_values()->Assign(values[s].begin(), values[s].end());
  }
  const v1::NextTokens& next = row.next_tokens();
  for (int i = 0; i < next.tokens_size(); ++i) {
    v1::NextToken& token = *run.add_next_tokens();
    token.set_token(next.tokens(i));
    token.set_text(next.texts(i));
    token.set_log_likelihood(next.log_likelihoods(i));
  }
  run.set_next_token_entropy(next.entropy());
  run.set_divergence(next.divergence());
  *run.mutable_log_likelihoods() = row.log_likelihoods();
  run.set_finite(!row.non_finite());
}

absl::Status AddFirstWeights(const v1::GetProbeRequest& request, const std::string& stored,
                             v1::Probe* answer) {
  const size_t positions = static_cast<size_t>(answer->tokens_size());
  const auto layers = static_cast<size_t>(answer->layers());
  const auto heads = static_cast<size_t>(answer->heads());
  if (stored.size() != layers * heads * positions * sizeof(float)) {
    return absl::DataLossError(absl::StrCat(
        request.job(), ": the first weights of sample ", request.sample(), " have ", stored.size(),
        " bytes, expected ", layers * heads * positions * sizeof(float)));
  }
  std::vector<float> row(positions);
  const auto read = [&](size_t layer, size_t head) {
    std::memcpy(row.data(), stored.data() + (layer * heads + head) * positions * sizeof(float),
                positions * sizeof(float));
  };
  for (size_t layer = 0; layer < layers; ++layer) {
    std::vector<double> sums(positions);
    for (size_t head = 0; head < heads; ++head) {
      read(layer, head);
      for (size_t i = 0; i < positions; ++i) sums[i] += row[i];
    }
    for (const double sum : sums) {
      answer->add_mean_first_weights(static_cast<float>(sum / static_cast<double>(heads)));
    }
  }
  const auto bytes = static_cast<int64_t>(heads * positions * sizeof(float));
  if (const int64_t most = kMaxWeightBytes / bytes; request.layers_size() > most) {
    return InvalidField(
        "layers", absl::StrCat(request.layers_size(), " layers"),
        absl::StrCat("must be at most ", most, " for a prompt of ", positions, " tokens"));
  }
  for (const int layer : request.layers()) {
    if (layer < 0 || layer >= answer->layers()) {
      return OutOfRange("layers", layer, absl::StrCat("the model has ", layers, " layers"));
    }
    for (size_t head = 0; head < heads; ++head) {
      read(static_cast<size_t>(layer), head);
      answer->mutable_first_weights()->Add(row.begin(), row.end());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Probe> GetProbe(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                   const v1::GetProbeRequest& request) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, request.job()));
  if (!results.job.has_probe()) return WrongKind(results.job, "probe");
  HC_ASSIGN_OR_RETURN(const Wanted wanted, WantedScores(request, results.job));
  if (!results.ablate.has_value()) return ResultsNotReady(request.job(), "prompts");
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Manifest> manifest,
                      ReadManifest(artifacts, results.manifest_digest));
  if (request.sample() < 0 || request.sample() >= manifest->samples_size()) {
    return OutOfRange("sample", request.sample(),
                      absl::StrCat("the job has ", manifest->samples_size(), " samples"));
  }
  const v1::StagePlan& plan = results.ablate->plan;
  const int64_t unit = UnitOf(plan, request.sample());
  HC_ASSIGN_OR_RETURN(const std::vector<store::ChunkRecord> chunks,
                      jobs.ListChunks(results.job.name(), store::Stage::kAblate, unit, 1));
  if (chunks.empty() || chunks.front().unit != unit) {
    return ResultsNotReady(request.job(), absl::StrCat("sample ", request.sample()));
  }
  v1::AblateChunk chunk;
  HC_RETURN_IF_ERROR(
      ReadChunk(artifacts, request.job(), chunks.front(), format::FrameKind::kAblateChunk, &chunk));
  HC_ASSIGN_OR_RETURN(
      SlabRows rows,
      SlabRows::Open(chunk.slabs(), chunk.results_size(), chunk.layers(), chunk.heads(),
                     wanted.expressions, absl::StrCat(request.job(), ", unit ", unit)));
  v1::Probe answer;
  answer.set_layers(chunk.layers());
  answer.set_heads(chunk.heads());
  const int place = static_cast<int>(request.sample() - chunk.first_sample());
  const v1::SampleResult& baseline = chunk.results(place);
  AddPrompt(*manifest, manifest->samples(static_cast<int>(request.sample())), baseline, &answer);
  for (int rule = 0; rule < chunk.rules(); ++rule) {
    const int row = rule * chunk.samples() + place;
    AddRun(plan, rule, wanted, chunk.results(row), rows.ScoresOf(row), &answer);
  }
  HC_RETURN_IF_ERROR(AddFirstWeights(request, baseline.first_weights(), &answer));
  return answer;
}

}  // namespace headcount::results
