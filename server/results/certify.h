// Whether a measured difference lets one say that a rule costs less than a margin, and which margin
// the data could show at all. Pure functions; NaN where undefined.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headcount::results {

// Level of every interval here, two-sided.
inline constexpr double kIntervalLevel = .95;

struct Bounds {
  double low = 0;
  double high = 0;
};

// Bonett and Price's adjusted interval (2012) for the paired difference of two proportions: one
// flip is added to each kind. Unlike a mean with its standard error it stays wide where nothing or
// little flips. NaNs for n < 1.
Bounds BonettPrice(int64_t flips_to_wrong, int64_t flips_to_right, int64_t n);

// The lower bound that a certificate stands on: the lower of the clustered interval's end and
// Bonett and Price's, which knows nothing of clusters.
double CertificateBound(double clustered_low, int64_t flips_to_wrong, int64_t flips_to_right,
                        int64_t n);

// e_min: the smallest margin that a rule with no true difference and this many flips could be
// certified for, on average: half of Bonett and Price's interval at equal flips, times the design
// effect's root (clustered over iid standard error) where that is above 1. In [0, 1].
double SmallestMargin(int64_t flips, int64_t n, double standard_error, double standard_error_iid);

// Holm's step-down adjustment; values[i] that are NaN stay NaN and do not count.
std::vector<double> HolmAdjusted(std::span<const double> p);

}  // namespace headcount::results
