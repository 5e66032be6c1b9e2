// See cross_fit.h.

#include "server/results/cross_fit.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/rule_index.h"
#include "server/results/score_table.h"
#include "server/results/statistics.h"

namespace headcount::results {
namespace {

// Sums over the documents of one fold, or of several.
struct Sums {
  int64_t documents = 0;
  double share = 0;
  int64_t difference = 0;  // of right answers, to the baseline

  void Add(const Sums& other) {
    documents += other.documents;
    share += other.share;
    difference += other.difference;
  }
  Sums Without(const Sums& other) const {
    return {documents - other.documents, share - other.share, difference - other.difference};
  }
  double MeanShare() const { return share / static_cast<double>(documents); }
  double MeanDifference() const {
    return static_cast<double>(difference) / static_cast<double>(documents);
  }
};

struct Candidate {
  std::string curve;
  double nominal_fraction = 0;
  int64_t block = 0;
  std::vector<Sums> folds;
  Sums all;
};
using Candidates = std::map<int, Candidate>;  // by shown rule

// What a rule did to one document.
struct Change {
  double share = 0;
  int difference = 0;
};

Change ChangeOf(const RuleOutcomes& rule, const RuleOutcomes& baseline, size_t document) {
  const auto& now = rule.documents[document];
  const auto& before = baseline.documents[document];
  if (!now || !before) return {};
  return {now->share_zeroed, (now->decision.correct ? 1 : 0) - (before->decision.correct ? 1 : 0)};
}

std::vector<int> FoldsOf(const Subtasks& subtasks, int folds) {
  std::vector<int> seen(static_cast<size_t>(subtasks.count), 0);
  std::vector<int> fold_of;
  for (const int32_t subtask : subtasks.of_document) {
    fold_of.push_back(seen[static_cast<size_t>(subtask)]++ % folds);
  }
  return fold_of;
}

Candidates CandidatesOf(const v1::Job& job, const v1::Curves& curves) {
  Candidates candidates;
  const std::set<std::string> scores = ScoresOf(job.sweep());
  for (const v1::Curve& curve : curves.curves()) {
    if (job.has_sweep() && !scores.contains(ScoreOfCurve(curve.id()))) continue;
    for (const v1::CurvePoint& point : curve.points()) {
      if (point.rule() == kBaselineRule || !Counts(point)) continue;
      Candidate& candidate = candidates[point.rule()];
      candidate.curve = curve.id();
      candidate.nominal_fraction = point.nominal_fraction();
    }
  }
  return candidates;
}

absl::Status SumUp(OutcomeReader& reader, const RuleOutcomes& baseline,
                   const std::vector<int>& fold_of, int folds, Candidates* candidates) {
  for (int64_t block = 0; block < reader.rule_blocks(); ++block) {
    HC_ASSIGN_OR_RETURN(const std::vector<RuleOutcomes> rules, reader.RuleBlock(block));
    for (const RuleOutcomes& rule : rules) {
      const auto at = candidates->find(rule.shown_rule);
      if (at == candidates->end()) continue;
      Candidate& candidate = at->second;
      candidate.block = block;
      candidate.folds.resize(static_cast<size_t>(folds));
      for (size_t d = 0; d < fold_of.size(); ++d) {
        const Change change = ChangeOf(rule, baseline, d);
        candidate.folds[static_cast<size_t>(fold_of[d])].Add({1, change.share, change.difference});
      }
      for (const Sums& fold : candidate.folds) candidate.all.Add(fold);
    }
  }
  return absl::OkStatus();
}

// The rule that zeroes most within the margin, a share; the first of equals. `sums_of` tells which
// documents choose.
template <typename SumsOf>
int Choose(const Candidates& candidates, double margin, const SumsOf& sums_of) {
  int chosen = kBaselineRule;
  double most = 0;
  for (const auto& [rule, candidate] : candidates) {
    const Sums sums = sums_of(candidate);
    if (sums.documents == 0 || sums.MeanDifference() < -margin || sums.MeanShare() <= most) {
      continue;
    }
    chosen = rule;
    most = sums.MeanShare();
  }
  return chosen;
}

void Show(const Candidates& candidates, int rule, int64_t documents, const Sums& measured,
          v1::FoldChoice* choice) {
  choice->set_rule(rule);
  choice->set_documents(documents);
  if (rule == kBaselineRule) return;
  const Candidate& candidate = candidates.at(rule);
  choice->set_score(candidate.curve);
  choice->set_nominal_fraction(candidate.nominal_fraction);
  choice->set_share_zeroed(measured.MeanShare());
  choice->set_difference(measured.MeanDifference());
}

}  // namespace

absl::Status CheckFolds(int folds, int documents) {
  if (folds >= 2 && folds <= kMostFolds && folds <= documents) return absl::OkStatus();
  return InvalidField("cross_fit", absl::StrCat(folds),
                      absl::StrCat("must be from 2 to ", kMostFolds, ", and at most the ",
                                   documents, " documents of the job"));
}

absl::Status AddCrossFit(OutcomeReader& reader, const v1::Job& job, const Subtasks& subtasks,
                         const RuleOutcomes& baseline, int folds, v1::Curves* curves) {
  const std::vector<int> fold_of = FoldsOf(subtasks, folds);
  std::vector<int64_t> documents(static_cast<size_t>(folds), 0);
  for (const int fold : fold_of) ++documents[static_cast<size_t>(fold)];
  Candidates candidates = CandidatesOf(job, *curves);
  HC_RETURN_IF_ERROR(SumUp(reader, baseline, fold_of, folds, &candidates));

  v1::CrossFit& out = *curves->mutable_cross_fit();
  const double margin = curves->margin_points() / 100;
  std::map<int, std::set<int>> folds_of_rule;
  for (int fold = 0; fold < folds; ++fold) {
    const auto f = static_cast<size_t>(fold);
    const int rule = Choose(candidates, margin, [f](const Candidate& candidate) {
      return candidate.all.Without(candidate.folds[f]);
    });
    folds_of_rule[rule].insert(fold);
    const Sums measured = rule == kBaselineRule ? Sums() : candidates.at(rule).folds[f];
    Show(candidates, rule, documents[f], measured, out.add_folds());
  }
  const int of_all =
      Choose(candidates, margin, [](const Candidate& candidate) { return candidate.all; });
  Show(candidates, of_all, static_cast<int64_t>(fold_of.size()),
       of_all == kBaselineRule ? Sums() : candidates.at(of_all).all, out.mutable_in_sample());

  // Every document under the choice of its fold.
  std::vector<double> differences(fold_of.size(), 0);
  double share = 0;
  for (const auto& [rule, its_folds] : folds_of_rule) {
    if (rule == kBaselineRule) continue;
    HC_ASSIGN_OR_RETURN(const std::vector<RuleOutcomes> block,
                        reader.RuleBlock(candidates.at(rule).block));
    for (const RuleOutcomes& outcomes : block) {
      if (outcomes.shown_rule != rule) continue;
      for (size_t d = 0; d < fold_of.size(); ++d) {
        if (!its_folds.contains(fold_of[d])) continue;
        const Change change = ChangeOf(outcomes, baseline, d);
        differences[d] = change.difference;
        share += change.share;
      }
    }
  }
  const PairedDifference paired = ComparePaired(differences, subtasks.of_document, subtasks.count);
  out.set_share_zeroed(share / static_cast<double>(fold_of.size()));
  out.set_difference(paired.mean);
  out.set_difference_low(paired.low);
  out.set_difference_high(paired.high);
  return absl::OkStatus();
}

}  // namespace headcount::results
