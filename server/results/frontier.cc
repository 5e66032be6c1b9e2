// See frontier.h.

#include "server/results/frontier.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/curves.h"
#include "server/results/job_results.h"
#include "server/results/records.h"
#include "server/results/rule_outcomes.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kDefaultMargin = .01;
constexpr double kDefaultAlpha = .05;

// What a unit adds to its rule.
struct BlockSum {
  double difference = 0;  // sum over documents of correct under the rule less at the baseline
  double share = 0;       // sum over documents of the share zeroed
};

// One score's search and the shares zeroed by its rules.
struct ScoreSearch {
  std::string score;
  int first_rule = 0;
  FrontierSearch search;
  std::vector<double> share_sums;  // by fraction, over the documents seen
};

int Fractions(const v1::FrontierSpec& spec, const v1::StagePlan& plan) {
  return plan.rules_size() / std::max(1, spec.scores_size());
}

// A search a score, without anything seen.
std::vector<ScoreSearch> NewSearches(const v1::FrontierSpec& spec, const v1::StagePlan& plan) {
  std::vector<int64_t> blocks;
  for (const int32_t block : plan.block_order()) {
    blocks.push_back(plan.sample_blocks(block).documents());
  }
  const int fractions = Fractions(spec, plan);
  std::vector<ScoreSearch> searches;
  for (int s = 0; s < spec.scores_size(); ++s) {
    const int first_rule = s * fractions;
    searches.push_back({plan.rules(first_rule).label(), first_rule,
                        FrontierSearch(FrontierOptionsOf(spec), blocks, fractions),
                        std::vector<double>(static_cast<size_t>(fractions), 0)});
  }
  return searches;
}

// Reads the stored units of the stage: [rule][place in the drawing order].
absl::StatusOr<std::vector<std::map<int64_t, BlockSum>>> ReadSums(
    store::JobStore& jobs, store::ArtifactStore& artifacts, const v1::Job& job,
    const v1::StagePlan& plan, const v1::Manifest& manifest, const RuleOutcomes& baseline) {
  std::map<int64_t, int64_t> place_of;  // first sample of a block -> place
  for (int64_t place = 0; place < plan.block_order_size(); ++place) {
    const int block = plan.block_order(static_cast<int>(place));
    place_of[plan.sample_blocks(block).first_sample()] = place;
  }
  std::vector<std::map<int64_t, BlockSum>> sums(static_cast<size_t>(plan.rules_size()));
  ChunkCursor cursor(jobs, job.name(), store::Stage::kAblate, 0, plan.units_size());
  while (true) {
    HC_ASSIGN_OR_RETURN(const std::optional<store::ChunkRecord> record, cursor.Next());
    if (!record) return sums;
    v1::AblateChunk chunk;
    HC_RETURN_IF_ERROR(
        ReadChunk(artifacts, job.name(), *record, format::FrameKind::kAblateChunk, &chunk));
    const auto place = place_of.find(chunk.first_sample());
    if (chunk.rules() != 1 || chunk.first_rule() < 0 || chunk.first_rule() >= plan.rules_size() ||
        chunk.results_size() != chunk.samples() || place == place_of.end()) {
      return absl::DataLossError(
          absl::StrCat(job.name(), ", ablate unit ", record->unit, " does not fit its plan"));
    }
    BlockSum& sum = sums[static_cast<size_t>(chunk.first_rule())][place->second];
    HC_RETURN_IF_ERROR(ForEachDocument(
        manifest, chunk.first_sample(), chunk.samples(), int64_t{chunk.layers()} * chunk.heads(),
        [&chunk](int i) -> const v1::SampleResult& { return chunk.results(i); },
        [&](int64_t document, const DocumentOutcome& outcome) {
          const auto& before = baseline.documents[static_cast<size_t>(document)];
          sum.difference += outcome.decision.correct ? 1 : 0;
          sum.difference -= before.has_value() && before->decision.correct ? 1 : 0;
          sum.share += outcome.share_zeroed;
        }));
  }
}

absl::StatusOr<std::vector<ScoreSearch>> FedSearches(store::JobStore& jobs,
                                                     store::ArtifactStore& artifacts,
                                                     const JobResults& results,
                                                     const v1::StagePlan& plan) {
  const v1::FrontierSpec& spec = results.job.frontier();
  std::vector<ScoreSearch> searches = NewSearches(spec, plan);
  if (plan.units().empty()) return searches;
  HC_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Manifest> manifest,
                      ReadManifest(artifacts, results.manifest_digest));
  OutcomeReader reader(jobs, artifacts, results, *manifest);
  HC_ASSIGN_OR_RETURN(const RuleOutcomes baseline, reader.Baseline());
  HC_ASSIGN_OR_RETURN(const auto sums,
                      ReadSums(jobs, artifacts, results.job, plan, *manifest, baseline));
  for (ScoreSearch& each : searches) {
    for (size_t f = 0; f < each.share_sums.size(); ++f) {
      int64_t expected = 0;
      for (const auto& [place, sum] : sums[static_cast<size_t>(each.first_rule) + f]) {
        if (place != expected++) break;  // a unit before it is not in yet
        each.search.Add(static_cast<int>(f), sum.difference);
        each.share_sums[f] += sum.share;
      }
    }
  }
  return searches;
}

v1::FrontierShare::Verdict Shown(Verdict verdict) {
  switch (verdict) {
    case Verdict::kCertified:
      return v1::FrontierShare::CERTIFIED;
    case Verdict::kRefuted:
      return v1::FrontierShare::REFUTED;
    case Verdict::kUndecided:
      return v1::FrontierShare::UNDECIDED;
    case Verdict::kOpen:
      return v1::FrontierShare::OPEN;
    case Verdict::kUntested:
      break;
  }
  return v1::FrontierShare::UNTESTED;
}

v1::ScoreFrontier ShownFrontier(const ScoreSearch& each, const v1::StagePlan& plan) {
  v1::ScoreFrontier out;
  out.set_score(each.score);
  const FrontierSearch& search = each.search;
  for (int f = 0; f < static_cast<int>(each.share_sums.size()); ++f) {
    const v1::ResolvedRule& rule = plan.rules(each.first_rule + f);
    v1::FrontierShare& share = *out.add_shares();
    share.set_rule(each.first_rule + f);
    share.set_nominal_fraction(rule.nominal_fraction());
    share.set_threshold(ThresholdOf(rule));
    share.set_verdict(Shown(search.verdict(f)));
    const int64_t documents = search.documents_seen(f);
    share.set_documents(documents);
    share.set_difference(search.mean(f));
    share.set_share_zeroed(documents > 0 ? each.share_sums[static_cast<size_t>(f)] /
                                               static_cast<double>(documents)
                                         : kNaN);
    share.set_smallest_margin(documents > 0 ? search.SmallestMargin(f, false) : kNaN);
    share.set_smallest_margin_population(documents > 0 ? search.SmallestMargin(f, true) : kNaN);
  }
  out.set_certified_fraction(0);
  if (const int at = search.certified(); at >= 0) {
    out.set_certified_fraction(out.shares(at).nominal_fraction());
    out.set_certified_share(out.shares(at).share_zeroed());
  }
  out.set_refuted_fraction(kNaN);
  out.set_refuted_share(kNaN);
  if (const int at = search.refuted(); at >= 0) {
    out.set_refuted_fraction(out.shares(at).nominal_fraction());
    out.set_refuted_share(out.shares(at).share_zeroed());
  }
  out.set_documents_spent(search.documents_spent());
  out.set_documents_of_full_grid(search.documents_of_full_grid());
  return out;
}

}  // namespace

FrontierOptions FrontierOptionsOf(const v1::FrontierSpec& spec) {
  FrontierOptions options;
  options.margin = spec.margin() == 0 ? kDefaultMargin : spec.margin();
  options.alpha = spec.alpha() == 0 ? kDefaultAlpha : spec.alpha();
  options.ascending = spec.order() != v1::FrontierSpec::ANY;
  options.population = spec.claim() == v1::FrontierSpec::POPULATION;
  return options;
}

std::vector<int32_t> DrawOrder(int blocks, uint64_t seed) {
  std::vector<int32_t> order;
  for (int32_t block = 0; block < blocks; ++block) order.push_back(block);
  // std::shuffle may differ between libraries; this does not.
  std::mt19937_64 random(seed);
  for (size_t i = order.size(); i > 1; --i) {
    const auto j = static_cast<size_t>((static_cast<unsigned __int128>(random()) * i) >> 64);
    std::swap(order[i - 1], order[j]);
  }
  return order;
}

absl::StatusOr<std::vector<v1::UnitRange>> NextFrontierUnits(store::JobStore& jobs,
                                                             store::ArtifactStore& artifacts,
                                                             const v1::Job& job,
                                                             const v1::StagePlan& plan) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, job.name()));
  HC_ASSIGN_OR_RETURN(const std::vector<ScoreSearch> searches,
                      FedSearches(jobs, artifacts, results, plan));
  std::vector<v1::UnitRange> units;
  for (const ScoreSearch& each : searches) {
    for (const FrontierSearch::Want& want : each.search.NextLook()) {
      for (int64_t place = want.first_block; place < want.first_block + want.blocks; ++place) {
        const v1::SampleBlock& block =
            plan.sample_blocks(plan.block_order(static_cast<int>(place)));
        v1::UnitRange& unit = units.emplace_back();
        unit.set_unit(plan.units_size() + static_cast<int64_t>(units.size()) - 1);
        unit.set_first_sample(block.first_sample());
        unit.set_samples(block.samples());
        unit.set_first_rule(each.first_rule + want.share);
        unit.set_rules(1);
      }
    }
  }
  return units;
}

absl::StatusOr<v1::Frontier> GetFrontier(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                         const v1::GetFrontierRequest& request) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, request.job()));
  if (!results.job.has_frontier()) return WrongKind(results.job, "frontier");
  if (!results.ablate.has_value()) return ResultsNotReady(request.job(), "shares");
  const v1::StagePlan& plan = results.ablate->plan;
  HC_ASSIGN_OR_RETURN(const std::vector<ScoreSearch> searches,
                      FedSearches(jobs, artifacts, results, plan));
  const FrontierOptions options = FrontierOptionsOf(results.job.frontier());
  v1::Frontier answer;
  answer.set_margin(options.margin);
  answer.set_alpha(options.alpha);
  answer.set_order(options.ascending ? v1::FrontierSpec::ASCENDING : v1::FrontierSpec::ANY);
  answer.set_claim(options.population ? v1::FrontierSpec::POPULATION : v1::FrontierSpec::DOCUMENTS);
  answer.set_documents(plan.documents());
  answer.set_blocks(plan.block_order_size());
  answer.set_complete(results.complete());
  for (const ScoreSearch& each : searches) *answer.add_scores() = ShownFrontier(each, plan);
  return answer;
}

}  // namespace headcount::results
