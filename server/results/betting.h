// A test that may be looked at after every observation: is the mean of a list of numbers above a
// bound, from the numbers seen so far in random order? By betting (Waudby-Smith and Ramdas,
// "Estimating means of bounded random variables by betting", sampling without replacement there in
// section 5): a gambler who starts with 1 bets on "above" at odds that are fair if the mean is the
// bound. Whatever the list, the chance that the capital of a gambler in an unfavourable game ever
// reaches 1 / alpha is at most alpha, however often one looks and whenever one stops.
//
// The bets are a fixed mixture: capital is spread evenly over several fractions of the largest
// allowed stake, so no variance need be known or estimated. Not thread-safe. No errors.

#pragma once

#include <array>
#include <cstdint>

namespace headcount::results {

class BettingTest {
 public:
  // `bound` and all observations are in [0, 1]. `population`: how many numbers the list has, drawn
  // without replacement, so that each one seen tells about the rest; 0: the list has no end.
  BettingTest(double bound, int64_t population);

  void Add(double x);

  // The mixture's capital; infinite once what was seen proves the mean above the bound whatever
  // comes.
  double capital() const;
  // Whether "the mean is at most the bound" is rejected at level alpha, now or before.
  bool Rejects(double alpha) const { return largest_ * alpha >= 1; }

 private:
  static constexpr std::array kStakes = {.008, .016, .031, .0625, .125, .25, .5, .9};

  const double bound_;
  const int64_t population_;
  int64_t seen_ = 0;
  double sum_ = 0;
  std::array<double, kStakes.size()> capital_;
  double largest_ = 1;
};

}  // namespace headcount::results
