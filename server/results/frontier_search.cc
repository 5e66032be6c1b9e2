// See frontier_search.h.

#include "server/results/frontier_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace headcount::results {
namespace {

constexpr int64_t kFirstLook = 8;  // blocks; so that several workers have something to do

}  // namespace

FrontierSearch::FrontierSearch(FrontierOptions options, std::vector<int64_t> blocks, int shares)
    : options_(options), blocks_(std::move(blocks)) {
  for (const int64_t block : blocks_) {
    documents_ += block;
    largest_block_ = std::max(largest_block_, block);
  }
  const int64_t population = options_.population ? 0 : static_cast<int64_t>(blocks_.size());
  for (int s = 0; s < shares; ++s) {
    shares_.push_back({Above(options_.margin, options_.population),
                       BettingTest(1 - Bound(options_.margin), population),
                       {},
                       0,
                       0});
  }
}

double FrontierSearch::Bound(double margin) const {
  // The mean of the blocks' sums at which D's mean over documents is minus the margin.
  return Scaled(-margin * static_cast<double>(documents_) / static_cast<double>(blocks_.size()));
}

BettingTest FrontierSearch::Above(double margin, bool population) const {
  return {Bound(margin), population ? 0 : static_cast<int64_t>(blocks_.size())};
}

double FrontierSearch::level() const {
  return options_.ascending ? options_.alpha : options_.alpha / static_cast<double>(shares_.size());
}

void FrontierSearch::Add(int share, double sum) {
  Share& at = shares_[static_cast<size_t>(share)];
  at.documents += blocks_[at.sums.size()];
  at.sums.push_back(sum);
  at.sum += sum;
  at.above.Add(Scaled(sum));
  at.below.Add(1 - Scaled(sum));
}

Verdict FrontierSearch::verdict(int share) const {
  const Share& at = shares_[static_cast<size_t>(share)];
  if (at.above.Rejects(level())) return Verdict::kCertified;
  if (at.below.Rejects(level())) return Verdict::kRefuted;
  if (at.sums.size() == blocks_.size()) {
    // Everything was seen: about these documents nothing is left to doubt, only the case of a mean
    // that is the bound itself, which is not above it.
    return options_.population ? Verdict::kUndecided : Verdict::kRefuted;
  }
  return at.sums.empty() ? Verdict::kUntested : Verdict::kOpen;
}

std::vector<FrontierSearch::Want> FrontierSearch::NextLook() const {
  std::vector<Want> wants;
  for (int s = 0; s < static_cast<int>(shares_.size()); ++s) {
    const Verdict now = verdict(s);
    if (now == Verdict::kUntested || now == Verdict::kOpen) {
      const int64_t seen = blocks_seen(s);
      const int64_t left = static_cast<int64_t>(blocks_.size()) - seen;
      wants.push_back({s, seen, std::min(left, std::max(kFirstLook, (seen + 3) / 4))});
    }
    if (options_.ascending && now != Verdict::kCertified) break;
  }
  return wants;
}

int64_t FrontierSearch::blocks_seen(int share) const {
  return static_cast<int64_t>(shares_[static_cast<size_t>(share)].sums.size());
}

int64_t FrontierSearch::documents_seen(int share) const {
  return shares_[static_cast<size_t>(share)].documents;
}

double FrontierSearch::mean(int share) const {
  const Share& at = shares_[static_cast<size_t>(share)];
  if (at.documents == 0) return std::numeric_limits<double>::quiet_NaN();
  return at.sum / static_cast<double>(at.documents);
}

double FrontierSearch::SmallestMargin(int share, bool population) const {
  const Share& at = shares_[static_cast<size_t>(share)];
  const auto certifies = [&](double margin) {
    BettingTest test = Above(margin, population);
    for (const double sum : at.sums) test.Add(Scaled(sum));
    return test.Rejects(level());
  };
  if (!certifies(1)) return 1;
  double low = -1;
  double high = 1;
  for (int i = 0; i < 24; ++i) {
    const double middle = (low + high) / 2;
    (certifies(middle) ? high : low) = middle;
  }
  return std::max(0.0, high);
}

int FrontierSearch::certified() const {
  int largest = -1;
  for (int s = 0; s < static_cast<int>(shares_.size()); ++s) {
    if (verdict(s) == Verdict::kCertified) largest = s;
  }
  return largest;
}

int FrontierSearch::refuted() const {
  for (int s = 0; s < static_cast<int>(shares_.size()); ++s) {
    if (verdict(s) == Verdict::kRefuted) return s;
  }
  return -1;
}

int64_t FrontierSearch::documents_spent() const {
  int64_t spent = 0;
  for (const Share& share : shares_) spent += share.documents;
  return spent;
}

int64_t FrontierSearch::documents_of_full_grid() const {
  return documents_ * static_cast<int64_t>(shares_.size());
}

}  // namespace headcount::results
