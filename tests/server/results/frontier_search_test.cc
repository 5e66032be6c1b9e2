// The sequential test on simulated tasks, 1,000 seeded runs of each kind: how often it certifies
// what is not so, and what it spends. And the numbers of small cases by hand.

#include "server/results/frontier_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace headcount::results {
namespace {

constexpr int kRuns = 1'000;
constexpr double kMargin = .02;

// A share's effect on a task: how often answers flip, and by how much more to wrong than to right.
struct Effect {
  double discordance = 0;
  double loss = 0;
  double spread = 0;  // deviation of the loss between subjects
};

struct Task {
  std::vector<int64_t> blocks;            // documents of each, in random order
  std::vector<std::vector<double>> sums;  // [share][block] of D
  std::vector<double> truth;              // of the task's own documents
};

struct Design {
  std::vector<Effect> effects;
  int documents = 2'000;
  int subjects = 1;
  int block = 1;  // documents
  // Documents are moved until the loss is the effect's exactly: the hardest case at the bound.
  bool exact = false;
};

std::vector<double> DrawDifferences(const Design& design, const Effect& effect,
                                    std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  std::vector<double> subject_loss;
  for (int s = 0; s < design.subjects; ++s) {
    subject_loss.push_back(effect.loss + effect.spread * normal(random));
  }
  std::vector<double> differences;
  for (int i = 0; i < design.documents; ++i) {
    const double loss =
        subject_loss[static_cast<size_t>(int64_t{i} * design.subjects / design.documents)];
    const double flips = std::clamp(effect.discordance, std::abs(loss), 1.0);
    const double u = uniform(random);
    differences.push_back(u < (flips + loss) / 2 ? -1 : u < flips ? 1 : 0);
  }
  if (!design.exact) return differences;
  // Turns zeros and flips into each other at random places until the sum fits.
  const double wanted = -std::round(effect.loss * design.documents);
  double sum = std::accumulate(differences.begin(), differences.end(), 0.0);
  while (sum != wanted) {
    double& d = differences[random() % differences.size()];
    const double step = sum < wanted ? 1 : -1;
    if (std::abs(d + step) > 1) continue;
    d += step;
    sum += step;
  }
  return differences;
}

Task DrawTask(const Design& design, std::mt19937_64& random) {
  Task task;
  const int blocks = (design.documents + design.block - 1) / design.block;
  std::vector<int> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const auto end_of = [&](int block) {
    return std::min(design.documents, (block + 1) * design.block);
  };
  for (const int block : order) task.blocks.push_back(end_of(block) - block * design.block);
  for (const Effect& effect : design.effects) {
    const std::vector<double> differences = DrawDifferences(design, effect, random);
    task.truth.push_back(std::accumulate(differences.begin(), differences.end(), 0.0) /
                         design.documents);
    std::vector<double>& sums = task.sums.emplace_back();
    for (const int block : order) {
      sums.push_back(std::accumulate(differences.begin() + block * design.block,
                                     differences.begin() + end_of(block), 0.0));
    }
  }
  return task;
}

FrontierSearch Search(const FrontierOptions& options, const Task& task) {
  FrontierSearch search(options, task.blocks, static_cast<int>(task.sums.size()));
  while (true) {
    const auto looks = search.NextLook();
    if (looks.empty()) return search;
    for (const FrontierSearch::Want& want : looks) {
      for (int64_t b = want.first_block; b < want.first_block + want.blocks; ++b) {
        search.Add(want.share, task.sums[static_cast<size_t>(want.share)][static_cast<size_t>(b)]);
      }
    }
  }
}

struct Tally {
  int wrong_certificates = 0;  // runs with any
  int wrong_refutations = 0;
  int undecided = 0;
  double spent = 0;            // of the full grid, mean
  std::vector<int> certified;  // runs, by largest certified share; last: none
};

Tally Simulate(const Design& design, const FrontierOptions& options) {
  Tally tally;
  tally.certified.resize(design.effects.size() + 1);
  for (int run = 0; run < kRuns; ++run) {
    std::mt19937_64 random(static_cast<uint64_t>(run));
    const Task task = DrawTask(design, random);
    const FrontierSearch search = Search(options, task);
    bool wrong_certificate = false;
    bool wrong_refutation = false;
    bool undecided = false;
    for (int s = 0; s < static_cast<int>(design.effects.size()); ++s) {
      const double truth = options.population ? -design.effects[static_cast<size_t>(s)].loss
                                              : task.truth[static_cast<size_t>(s)];
      const bool above = truth > -options.margin + 1e-12;
      wrong_certificate |= search.verdict(s) == Verdict::kCertified && !above;
      wrong_refutation |= search.verdict(s) == Verdict::kRefuted && above;
      undecided |= search.verdict(s) == Verdict::kUndecided;
    }
    tally.wrong_certificates += wrong_certificate ? 1 : 0;
    tally.wrong_refutations += wrong_refutation ? 1 : 0;
    tally.undecided += undecided ? 1 : 0;
    tally.spent += static_cast<double>(search.documents_spent()) /
                   static_cast<double>(search.documents_of_full_grid()) / kRuns;
    const int at = search.certified();
    ++tally.certified[at < 0 ? design.effects.size() : static_cast<size_t>(at)];
  }
  return tally;
}

void ExpectFewWrong(const Tally& tally) {
  EXPECT_LE(tally.wrong_certificates, kRuns / 20);
  EXPECT_LE(tally.wrong_refutations, kRuns / 20);
}

const Design kMonotone = {{{.01, 0}, {.02, .001}, {.03, .002}, {.08, .05}, {.15, .1}, {.3, .25}}};
const Design kNonMonotone = {{{.01, 0}, {.1, .06}, {.02, 0}, {.15, .1}, {.02, -.005}, {.3, .25}}};

TEST(FrontierSimulation, Monotone) {
  const Tally tally = Simulate(kMonotone, {.margin = kMargin});
  ExpectFewWrong(tally);
  EXPECT_LT(tally.spent, .5);
  EXPECT_GT(tally.certified[2], .95 * kRuns);  // and it finds the frontier
}

TEST(FrontierSimulation, NonMonotoneInAnyOrder) {
  const Tally tally = Simulate(kNonMonotone, {.margin = kMargin, .ascending = false});
  ExpectFewWrong(tally);
  EXPECT_LT(tally.spent, .5);
  EXPECT_GT(tally.certified[4], .95 * kRuns);  // beyond two shares that fail
}

TEST(FrontierSimulation, NonMonotoneAscendingStopsAtTheFirstFailure) {
  const Tally tally = Simulate(kNonMonotone, {.margin = kMargin});
  ExpectFewWrong(tally);
  EXPECT_LT(tally.spent, .2);
  EXPECT_GT(tally.certified[0], .95 * kRuns);
}

TEST(FrontierSimulation, Clustered) {
  // Subjects differ in what they lose; blocks hold documents of one subject.
  const Design design = {
      {{.01, 0, .005}, {.02, .001, .01}, {.06, .04, .04}, {.3, .2, .1}}, 4'000, 40, 10};
  const Tally tally = Simulate(design, {.margin = kMargin});
  ExpectFewWrong(tally);
  EXPECT_LT(tally.spent, .5);
}

TEST(FrontierSimulation, UnresolvableAboutTheDocuments) {
  // The loss of the second share is the margin, to the document: never above minus the margin.
  const Design design = {{{.01, 0}, {.2, kMargin}, {.25, kMargin}}, 2'000, 1, 1, true};
  const Tally ascending = Simulate(design, {.margin = kMargin});
  ExpectFewWrong(ascending);
  const Tally any = Simulate(design, {.margin = kMargin, .ascending = false});
  ExpectFewWrong(any);
}

TEST(FrontierSimulation, UnresolvableBeyondTheDocumentsIsUndecided) {
  const Design design = {{{.2, kMargin}, {.25, .03}}};
  const Tally tally = Simulate(design, {.margin = kMargin, .population = true});
  ExpectFewWrong(tally);
  EXPECT_GT(tally.undecided, .9 * kRuns);
}

TEST(FrontierSearch, OnePointIsOutOfReachOfTheSmallTasks) {
  // PIQA's size at 10 % discordance without any loss: one point cannot be certified beyond its
  // documents, and the search says which margin can.
  const Design design = {{{.1, 0}}, 1'838, 1, 1, true};
  std::mt19937_64 random(1);
  const Task task = DrawTask(design, random);
  const FrontierSearch search = Search({.margin = .01, .population = true}, task);
  EXPECT_EQ(search.verdict(0), Verdict::kUndecided);
  const double resolved = search.SmallestMargin(0, true);
  EXPECT_GT(resolved, .01);
  EXPECT_LT(resolved, .05);
  const FrontierSearch wider = Search({.margin = resolved + .001, .population = true}, task);
  EXPECT_EQ(wider.verdict(0), Verdict::kCertified);
  // About its documents nothing stays open once all were seen.
  EXPECT_LT(search.SmallestMargin(0, false), 1e-4);
}

TEST(FrontierSearch, AsksShareByShareInGrowingLooks) {
  const std::vector<int64_t> blocks(100, 10);
  FrontierSearch search({.margin = .1}, blocks, 3);
  auto looks = search.NextLook();
  ASSERT_EQ(looks.size(), 1u);
  EXPECT_EQ(looks[0].share, 0);
  EXPECT_EQ(looks[0].first_block, 0);
  EXPECT_EQ(looks[0].blocks, 8);
  for (int i = 0; i < 40; ++i) search.Add(0, -1);  // 10 % lost, to the document: open
  EXPECT_EQ(search.verdict(0), Verdict::kOpen);
  looks = search.NextLook();
  ASSERT_EQ(looks.size(), 1u);
  EXPECT_EQ(looks[0].first_block, 40);
  EXPECT_EQ(looks[0].blocks, 10);
  EXPECT_EQ(search.documents_spent(), 400);
  EXPECT_EQ(search.documents_of_full_grid(), 3'000);
  EXPECT_DOUBLE_EQ(search.mean(0), -.1);
  EXPECT_EQ(search.certified(), -1);
  EXPECT_EQ(search.refuted(), -1);

  FrontierSearch any({.margin = .1, .ascending = false}, blocks, 3);
  EXPECT_EQ(any.NextLook().size(), 3u);
}

TEST(FrontierSearch, AllDocumentsSeenDecideAboutThemselves) {
  const std::vector<int64_t> blocks = {3, 2, 3};  // of unequal size: weighed by documents
  FrontierSearch search({.margin = .25}, blocks, 2);
  search.Add(0, 0);
  search.Add(0, 0);
  EXPECT_EQ(search.verdict(0), Verdict::kOpen);
  search.Add(0, -1);  // 1 of 8 lost, 2 allowed
  EXPECT_EQ(search.verdict(0), Verdict::kCertified);
  for (int i = 0; i < 2; ++i) search.Add(1, -1);
  search.Add(1, 0);  // 2 of 8 are the margin itself: not above it
  EXPECT_EQ(search.verdict(1), Verdict::kRefuted);
  EXPECT_EQ(search.certified(), 0);
  EXPECT_EQ(search.refuted(), 1);
  EXPECT_TRUE(search.NextLook().empty());
}

TEST(BettingTest, CapitalByHand) {
  BettingTest test(.5, 4);
  test.Add(1);
  // Each stake's share grows by stake / .5 * (1 - .5); the mean of them is 1 + the mean stake.
  EXPECT_NEAR(test.capital(), 1 + (.008 + .016 + .031 + .0625 + .125 + .25 + .5 + .9) / 8, 1e-12);
  test.Add(1);
  EXPECT_FALSE(test.Rejects(.05));  // two of four: the mean may still be a half
  test.Add(.5);
  EXPECT_EQ(test.capital(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(test.Rejects(1e-9));
}

}  // namespace
}  // namespace headcount::results
