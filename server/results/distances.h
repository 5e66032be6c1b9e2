// How far two one-dimensional samples lie apart, of equal or different sizes. A comparison of jobs
// asks these for every head. Pure functions over ascending values without NaNs; NaN where a sample
// is empty.

#pragma once

#include <span>

namespace headcount::results {

// Wasserstein-1 distance: the area between the two empirical distribution functions, in the unit of
// the values.
double Wasserstein1(std::span<const float> a, std::span<const float> b);

// Kolmogorov-Smirnov distance: the largest gap between the two empirical distribution functions,
// [0, 1].
double KolmogorovSmirnov(std::span<const float> a, std::span<const float> b);

}  // namespace headcount::results
