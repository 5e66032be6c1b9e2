// The largest share of heads that may be zeroed within a margin of the baseline, found without
// running every share on every document. For each share the mean paired difference D (correct
// under the rule less correct at the baseline) is tested from both sides by betting (betting.h) on
// blocks of documents in random order, until it is certified (above minus the margin), refuted (at
// most that) or there is nothing left to draw.
//
// A claim is about the job's own documents, drawn without replacement, or about the questions they
// are a sample of; `population` says which. Shares are tested in ascending order, each at alpha,
// until the first that is not certified; or in any order, each at alpha over their number. Either
// way the chance of any wrong certificate is at most alpha, and so is that of any wrong refutation.
//
// The job flow feeds it what is stored and asks what to run next; the same numbers give the same
// answers. Not thread-safe. No errors.

#pragma once

#include <cstdint>
#include <vector>

#include "server/results/betting.h"

namespace headcount::results {

struct FrontierOptions {
  double margin = .01;  // of accuracy, in [0, 1]
  double alpha = .05;
  bool ascending = true;    // else any order, alpha split
  bool population = false;  // claims reach beyond the job's documents
};

enum class Verdict { kUntested, kOpen, kCertified, kRefuted, kUndecided };

class FrontierSearch {
 public:
  // `blocks`: documents of each block in the order in which they are drawn. `shares`: how many,
  // ascending.
  FrontierSearch(FrontierOptions options, std::vector<int64_t> blocks, int shares);

  struct Want {
    int share = 0;
    int64_t first_block = 0;  // in drawing order
    int64_t blocks = 0;
  };
  // What to run next: of every share that is being tested, a first batch, later a quarter more than
  // was seen. Empty: the answer is there.
  std::vector<Want> NextLook() const;

  // The sum of D over the next block of a share.
  void Add(int share, double sum);

  Verdict verdict(int share) const;
  int64_t blocks_seen(int share) const;
  int64_t documents_seen(int share) const;
  double mean(int share) const;  // of D over these; NaN for none

  // The smallest margin at which what was seen of a share certifies it, about the job's documents
  // or beyond them; 1 where none does.
  double SmallestMargin(int share, bool population) const;

  int certified() const;  // the largest share with that verdict; -1: none
  int refuted() const;    // the smallest; -1: none
  int64_t documents_spent() const;
  int64_t documents_of_full_grid() const;

 private:
  struct Share {
    BettingTest above;  // that D's mean is above minus the margin
    BettingTest below;
    std::vector<double> sums;
    int64_t documents = 0;
    double sum = 0;
  };

  BettingTest Above(double margin, bool population) const;
  // D's sum over a block as a number in [0, 1]: the mean of these over blocks stands for D's.
  double Scaled(double sum) const { return (sum / static_cast<double>(largest_block_) + 1) / 2; }
  double Bound(double margin) const;
  double level() const;

  const FrontierOptions options_;
  const std::vector<int64_t> blocks_;
  int64_t documents_ = 0;
  int64_t largest_block_ = 1;
  std::vector<Share> shares_;
};

}  // namespace headcount::results
