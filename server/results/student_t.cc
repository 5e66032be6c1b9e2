// See student_t.h.

#include "server/results/student_t.h"

#include <math.h>  // lgamma_r, which unlike lgamma touches no global

#include <cmath>
#include <limits>

namespace headcount::results {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

// The continued fraction of I_x(a, b) by Lentz's method; converges fast for x < (a + 1) / (a + b +
// 2).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kMostTerms = 10'000;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double value = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return value;
}

}  // namespace

double IncompleteBeta(double a, double b, double x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1)) return kNaN;
  if (x == 0 || x == 1) return x;
  const double log_front =
      LogGamma(a + b) - LogGamma(a) - LogGamma(b) + a * std::log(x) + b * std::log1p(-x);
  if (x < (a + 1) / (a + b + 2)) return std::exp(log_front) * BetaFraction(a, b, x) / a;
  return 1 - std::exp(log_front) * BetaFraction(b, a, 1 - x) / b;
}

double StudentTwoSidedP(double t, double freedom) {
  if (!(freedom > 0) || std::isnan(t)) return kNaN;
  if (std::isinf(t)) return 0;
  return IncompleteBeta(freedom / 2, .5, freedom / (freedom + t * t));
}

double StudentCritical(double p, double freedom) {
  if (!(freedom > 0 && p > 0 && p < 1)) return kNaN;
  double low = 0;
  double high = 1;
  while (StudentTwoSidedP(high, freedom) > p && high < 1e15) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = (low + high) / 2;
    (StudentTwoSidedP(middle, freedom) > p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace headcount::results
