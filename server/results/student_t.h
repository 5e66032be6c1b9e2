// Student's t distribution, for intervals and p values of means with few documents or few clusters.
// Pure functions, double precision, right to about 1e-12; no errors: what is undefined is NaN.

#pragma once

namespace headcount::results {

// Regularised incomplete beta function I_x(a, b), x in [0, 1], a and b above 0.
double IncompleteBeta(double a, double b, double x);

// P(|T| >= |t|) with `freedom` degrees of freedom; NaN unless freedom > 0 and t is a number.
double StudentTwoSidedP(double t, double freedom);

// The t with P(|T| >= t) = p, p in (0, 1): 1.96 for p = .05 and large `freedom`.
double StudentCritical(double p, double freedom);

}  // namespace headcount::results
