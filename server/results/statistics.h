// The statistics that stand beside an accuracy: standard errors as lm-evaluation-harness computes
// them, and paired comparisons of a rule with the baseline over the same documents. Pure functions
// over arrays, double precision, no errors: what is undefined is NaN.

#pragma once

#include <cstdint>
#include <span>

namespace headcount::results {

// Mean; NaN for no values.
double Mean(std::span<const double> values);

// Standard deviation with n - 1 in the denominator; NaN for n < 2.
double StandardDeviation(std::span<const double> values);

// Standard error of the mean, standard deviation / sqrt(n); NaN for n < 2.
double StandardError(std::span<const double> values);

// Of a share of right answers, the same number without an array; NaN for n < 2.
double StandardErrorOfShare(int64_t correct, int64_t n);

// One subtask of a group.
struct GroupPart {
  int64_t documents = 0;
  double standard_error = 0;  // of its mean; not read where documents < 2
};

// Standard error of the document-weighted mean over a group's k subtasks:
// sqrt(sum (n_i - 1) n_i se_i^2 / (N - k) / N). NaN where N <= k.
double PooledStandardError(std::span<const GroupPart> parts);

// Mean of paired differences over the same documents.
struct PairedDifference {
  double mean = 0;
  double standard_error = 0;      // clustered where there are two clusters or more, else iid
  double standard_error_iid = 0;  // standard deviation / sqrt(n)
  // 95 % interval and two-sided p of "no difference", by Student's t with G - 1 degrees of freedom
  // for G clusters, n - 1 where the error is iid. Where nothing varies the interval is the mean
  // itself and p is 1 for a mean of 0, else 0.
  double low = 0;
  double high = 0;
  double p = 1;
};

// `cluster[i]` in [0, clusters) is the subtask of document i. The clustered standard error is
// sqrt(G / (G - 1) * sum over clusters of (sum of d_i - mean)^2) / n over the G clusters that have
// documents; with one document a cluster it is the iid one. NaN for n < 2.
PairedDifference ComparePaired(std::span<const double> differences,
                               std::span<const int32_t> cluster, int32_t clusters);

// Two-sided exact McNemar test: the probability under a fair coin of a split at least as uneven as
// the flips'. Right to within 1e-10 relative. 1 for no flips.
double McNemarExactP(int64_t flips_to_wrong, int64_t flips_to_right);

}  // namespace headcount::results
