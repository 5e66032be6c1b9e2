// See statistics.h.

#include "server/results/statistics.h"

#include <math.h>  // lgammal_r, which unlike lgamma touches no global

#include <algorithm>
#include <limits>
#include <vector>

#include "server/results/certify.h"
#include "server/results/student_t.h"

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

long double LogFactorial(int64_t n) {
  int sign = 0;
  return lgammal_r(static_cast<long double>(n) + 1, &sign);
}

void AddInterval(double freedom, PairedDifference* result) {
  if (std::isnan(result->standard_error)) {
    result->low = result->high = result->p = kNaN;
    return;
  }
  const double half = StudentCritical(1 - kIntervalLevel, freedom) * result->standard_error;
  result->low = result->mean - half;
  result->high = result->mean + half;
  if (result->standard_error > 0) {
    result->p = StudentTwoSidedP(result->mean / result->standard_error, freedom);
  } else {
    result->p = result->mean == 0 ? 1 : 0;
  }
}

}  // namespace

double Mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  double sum = 0;
  for (const double x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

double StandardDeviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double mean = Mean(values);
  double sum = 0;
  for (const double x : values) sum += (x - mean) * (x - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double StandardError(std::span<const double> values) {
  return StandardDeviation(values) / std::sqrt(static_cast<double>(values.size()));
}

double StandardErrorOfShare(int64_t correct, int64_t n) {
  if (n < 2) return kNaN;
  const double p = static_cast<double>(correct) / static_cast<double>(n);
  return std::sqrt(p * (1 - p) / static_cast<double>(n - 1));
}

double PooledStandardError(std::span<const GroupPart> parts) {
  double documents = 0;
  double sum = 0;
  for (const GroupPart& part : parts) {
    const auto n = static_cast<double>(part.documents);
    documents += n;
    if (part.documents >= 2) sum += (n - 1) * n * part.standard_error * part.standard_error;
  }
  const double freedom = documents - static_cast<double>(parts.size());
  if (freedom <= 0) return kNaN;
  return std::sqrt(sum / freedom / documents);
}

PairedDifference ComparePaired(std::span<const double> differences,
                               std::span<const int32_t> cluster, int32_t clusters) {
  PairedDifference result;
  result.mean = Mean(differences);
  result.standard_error_iid = StandardError(differences);
  result.standard_error = result.standard_error_iid;
  std::vector<double> sums(static_cast<size_t>(clusters), 0.0);
  std::vector<char> used(static_cast<size_t>(clusters), 0);
  for (size_t i = 0; i < differences.size(); ++i) {
    const auto c = static_cast<size_t>(cluster[i]);
    sums[c] += differences[i] - result.mean;
    used[c] = 1;
  }
  const auto count = static_cast<double>(std::count(used.begin(), used.end(), 1));
  double freedom = static_cast<double>(differences.size()) - 1;
  if (count >= 2) {
    double squares = 0;
    for (const double sum : sums) squares += sum * sum;
    result.standard_error =
        std::sqrt(count / (count - 1) * squares) / static_cast<double>(differences.size());
    freedom = count - 1;
  }
  AddInterval(freedom, &result);
  return result;
}

double McNemarExactP(int64_t flips_to_wrong, int64_t flips_to_right) {
  const int64_t n = flips_to_wrong + flips_to_right;
  const int64_t few = std::min(flips_to_wrong, flips_to_right);
  if (2 * few >= n) return 1;
  // Twice the lower tail of Binomial(n, 1/2), summed from its largest term down so that nothing
  // underflows that matters.
  const long double log_largest = LogFactorial(n) - LogFactorial(few) - LogFactorial(n - few) -
                                  static_cast<long double>(n) * logl(2.0L);
  long double term = 1;
  long double sum = 0;
  for (int64_t k = few; k >= 0 && term > 0; --k) {
    sum += term;
    term *= static_cast<long double>(k) / static_cast<long double>(n - k + 1);
  }
  return static_cast<double>(std::min(1.0L, 2 * expl(log_largest) * sum));
}

}  // namespace headcount::results
