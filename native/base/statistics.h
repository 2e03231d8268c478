// Quantiles, moments and Student-t inference. Same bits on every platform (see base/math.h).
//
// Values must not be NaN. Quantiles accept +infinity (an unfinished workflow counts as infinite); moments,
// intervals and tests need finite values. Nothing here returns NaN for such inputs:
//   - no values: quantiles, means and variances are 0;
//   - fewer than two values: the variance is 0, an interval is (-infinity, infinity), every p is 1;
//   - zero variance: an interval has width 0, and p is 1 where the difference is 0. Where it is not, t is
//   infinite and p
//     is what the sign says: 0 two-sided and on that side, 1 on the other.
#pragma once

#include <span>

namespace laxity {

/// The upper empirical quantile: the smallest value v such that the share of values <= v reaches q, i.e. the
/// ceil(q n)-th order statistic, without interpolation (validation.md 5). The share k / n is compared as a
/// double, just as attainment is, so that 7 of 100 reach 0.07. Reorders `scratch`. O(n).
double upperQuantile(std::span<double> scratch, double q);

/// Linear interpolation at rank (n - 1) q, to the bit as numpy's default. Reorders `scratch`. O(n).
double linearQuantile(std::span<double> scratch, double q);

double mean(std::span<const double> values);

/// The unbiased sample variance (divisor n - 1), by two corrected passes. Exactly 0 for equal values.
double variance(std::span<const double> values);

/// P(T <= t) for Student's t with df > 0 degrees of freedom. The smaller tail has a relative error below
/// 1e-11 up to df = 1e6.
double studentCdf(double t, double df);

/// The t with studentCdf(t, df) = p. p <= 0 gives -infinity, p >= 1 gives infinity.
double studentQuantile(double p, double df);

/// Mean and its two-sided Student-t interval.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

struct TTest {
  double mean = 0;  ///< of a, minus that of b
  double low = 0;   ///< two-sided interval of the difference
  double high = 0;
  double t = 0;
  double df = 0;
  double pTwoSided = 1;
  double pLess = 1;     ///< one-sided, alternative "a is smaller than b"
  double pGreater = 1;  ///< one-sided, alternative "a is greater than b"
};

/// `confidence` in (0, 1).
Interval meanInterval(std::span<const double> values, double confidence = 0.95);

/// Paired differences a[i] - b[i], df = n - 1. Values beyond the shorter span are ignored.
TTest pairedT(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

/// Welch's test for unequal variances, df by Welch and Satterthwaite.
TTest welchT(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

}  // namespace laxity
