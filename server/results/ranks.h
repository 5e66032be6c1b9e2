// What is said by order alone: ranks, Spearman's correlation, the area under the ROC curve, and how
// far two top lists agree. Scores are compared between models and with knockouts through these.
// Pure functions; NaN where undefined.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headcount::results {

// 1 for the smallest value; equal ones share the mean of their ranks. No NaNs among the values.
std::vector<double> AverageRanks(std::span<const double> values);

// 1 for the largest.
std::vector<double> RanksFromLargest(std::span<const double> values);

// Spearman's rank correlation: Pearson's of the average ranks. NaN for fewer than two values or
// where all values of one side are equal.
double Spearman(std::span<const double> a, std::span<const double> b);

// The probability that a positive value is larger than a negative one, ties counting half (Mann-
// Whitney's U over n1 n2). `positive[i]` is 0 or 1. NaN where one class is empty.
double AreaUnderRoc(std::span<const double> values, std::span<const uint8_t> positive);

// Jaccard overlap of the indices of the `top` largest values of each: shared / distinct. The lower
// index of equal values wins. NaN where there are fewer than `top` values or top < 1.
double TopOverlap(std::span<const double> a, std::span<const double> b, int top);

}  // namespace headcount::results
