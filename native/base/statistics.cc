#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/math.h"

namespace laxity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSqrtPi = 0x1.c5bf891b4ef6bp+0;

struct Moments {
  double mean = 0;
  double variance = 0;
};

// Offsets from the first value make equal values exact; the second pass removes what the first lost when that
// value is far from the rest (Chan, Golub and LeVeque 1983).
template <class Value>
Moments moments(std::size_t n, Value value) {
  if (n == 0) return {};
  const double count = static_cast<double>(n);
  const double first = value(0);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += value(i) - first;
  double centre = first + sum / count;
  sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double d = value(i) - centre;
    sum += d;
    squares += d * d;
  }
  centre += sum / count;
  if (n < 2) return {centre, 0};
  return {centre, std::max(0.0, (squares - sum * sum / count) / (count - 1))};
}

Moments moments(std::span<const double> values) {
  return moments(values.size(), [values](std::size_t i) { return values[i]; });
}

// Gamma(a + 1/2) / Gamma(a): its asymptotic series in 1/a, reached by recurrence. Avoids the cancellation
// that two log-gammas suffer for many degrees of freedom.
double halfGammaRatio(double a) {
  double factor = 1;
  for (; a < 64; a += 1) factor *= a / (a + 0.5);
  const double z = 1 / a;
  double series = 39325.0 / 33554432;
  series = series * z + 869.0 / 4194304;
  series = series * z - 399.0 / 262144;
  series = series * z - 21.0 / 32768;
  series = series * z + 5.0 / 1024;
  series = series * z + 1.0 / 128;
  series = series * z - 1.0 / 8;
  return factor * std::sqrt(a) * (1 + series * z);
}

// The continued fraction of I_x(a, b) (DLMF 8.17.22), forward by Lentz's method. Converges in O(sqrt(max(a,
// b))) steps for x below (a + 1) / (a + b + 2), where no partial denominator vanishes.
double betaFraction(double a, double b, double x) {
  constexpr double kEpsilon = 0x1p-53;
  constexpr int kSteps = 100'000;
  double numerator = 1;    // ratio of successive numerators
  double denominator = 0;  // inverse ratio of successive denominators
  double value = 1;
  for (int step = 1; step <= kSteps; ++step) {
    const double m = step / 2;
    const double term = step % 2 == 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                      : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    numerator = 1 + term / numerator;
    denominator = 1 / (1 + term * denominator);
    const double change = numerator * denominator;
    value *= change;
    if (std::abs(change - 1) <= 2 * kEpsilon) break;
  }
  return 1 / value;
}

// P(T > t), t >= 0: half of I_x(df/2, 1/2) at x = df / (df + t^2).
double upperTail(double t, double df) {
  const double square = t * t;
  if (square == kInfinity) return 0;
  if (square == 0) return 0.5;
  const double a = df / 2;
  const double x = df / (df + square);
  const double y = square / (df + square);
  // x^a y^(1/2) / B(a, 1/2); a ln x = -a ln(1 + t^2 / df) keeps its digits for large df.
  const double front = detExp(-a * detLog1p(square / df)) * std::sqrt(y) * halfGammaRatio(a) / kSqrtPi;
  if (x < (a + 1) / (a + 2.5)) return 0.5 * front * betaFraction(a, 0.5, x) / a;
  return 0.5 - front * betaFraction(0.5, a, y);
}

// The t >= 0 with upperTail(t) = tail, for tail in (0, 1/2]. Bisection to adjacent doubles: exact and the
// same everywhere, at about a hundred evaluations.
double upperTailQuantile(double tail, double df) {
  double low = 0;
  double high = 1;
  while (upperTail(high, df) > tail) {
    low = high;
    high *= 2;
  }
  for (;;) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (upperTail(middle, df) > tail ? low : high) = middle;
  }
}

TTest decide(double difference, double standardError, double df, double confidence) {
  TTest test;
  test.mean = difference;
  test.df = df;
  if (standardError == 0) {
    test.low = test.high = difference;
    if (difference == 0) return test;
    test.t = difference < 0 ? -kInfinity : kInfinity;
    test.pTwoSided = 0;
    test.pLess = difference < 0 ? 0 : 1;
    test.pGreater = difference < 0 ? 1 : 0;
    return test;
  }
  const double half = standardError * studentQuantile(0.5 + confidence / 2, df);
  test.low = difference - half;
  test.high = difference + half;
  test.t = difference / standardError;
  test.pLess = studentCdf(test.t, df);
  test.pGreater = studentCdf(-test.t, df);
  test.pTwoSided = std::min(1.0, 2 * std::min(test.pLess, test.pGreater));
  return test;
}

TTest undecided(double difference) {
  TTest test;
  test.mean = difference;
  test.low = -kInfinity;
  test.high = kInfinity;
  return test;
}

}  // namespace

double upperQuantile(std::span<double> scratch, double q) {
  const std::size_t n = scratch.size();
  if (n == 0) return 0;
  const double count = static_cast<double>(n);
  const double guess = std::ceil(q * count);
  std::size_t rank = guess >= count ? n : guess >= 1 ? static_cast<std::size_t>(guess) : 1;
  // q n may round to either side of an integer; k / n >= q is the definition.
  while (rank > 1 && static_cast<double>(rank - 1) / count >= q) --rank;
  while (rank < n && static_cast<double>(rank) / count < q) ++rank;
  const auto place = scratch.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(scratch.begin(), place, scratch.end());
  return *place;
}

double linearQuantile(std::span<double> scratch, double q) {
  const std::size_t n = scratch.size();
  if (n == 0) return 0;
  const double rank = static_cast<double>(n - 1) * std::clamp(q, 0.0, 1.0);
  const std::size_t below = static_cast<std::size_t>(rank);
  const auto place = scratch.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(scratch.begin(), place, scratch.end());
  const double fraction = rank - static_cast<double>(below);
  if (fraction == 0) return *place;
  const double low = *place;
  const double high = *std::min_element(place + 1, scratch.end());
  if (low == high) return low;
  if (high == kInfinity) return high;
  // From the nearer end, as numpy does.
  const double step = high - low;
  return fraction < 0.5 ? low + step * fraction : high - step * (1 - fraction);
}

double mean(std::span<const double> values) { return moments(values).mean; }

double variance(std::span<const double> values) { return moments(values).variance; }

double studentCdf(double t, double df) { return t > 0 ? 1 - upperTail(t, df) : upperTail(-t, df); }

double studentQuantile(double p, double df) {
  if (p <= 0) return -kInfinity;
  if (p >= 1) return kInfinity;
  if (p == 0.5) return 0;
  return p < 0.5 ? -upperTailQuantile(p, df) : upperTailQuantile(1 - p, df);
}

Interval meanInterval(std::span<const double> values, double confidence) {
  const Moments m = moments(values);
  if (values.size() < 2) return {m.mean, -kInfinity, kInfinity};
  const double n = static_cast<double>(values.size());
  const TTest test = decide(m.mean, std::sqrt(m.variance / n), n - 1, confidence);
  return {test.mean, test.low, test.high};
}

TTest pairedT(std::span<const double> a, std::span<const double> b, double confidence) {
  const std::size_t size = std::min(a.size(), b.size());
  const Moments m = moments(size, [a, b](std::size_t i) { return a[i] - b[i]; });
  if (size < 2) return undecided(m.mean);
  const double n = static_cast<double>(size);
  return decide(m.mean, std::sqrt(m.variance / n), n - 1, confidence);
}

TTest welchT(std::span<const double> a, std::span<const double> b, double confidence) {
  const Moments first = moments(a);
  const Moments second = moments(b);
  const double difference = first.mean - second.mean;
  if (a.size() < 2 || b.size() < 2) return undecided(difference);
  const double n = static_cast<double>(a.size());
  const double m = static_cast<double>(b.size());
  const double left = first.variance / n;
  const double right = second.variance / m;
  const double sum = left + right;
  if (sum == 0) return decide(difference, 0, n + m - 2, confidence);
  // Shares first: the squares of tiny variances would underflow.
  const double p = left / sum;
  const double q = right / sum;
  const double df = 1 / (p * p / (n - 1) + q * q / (m - 1));
  return decide(difference, std::sqrt(sum), df, confidence);
}

}  // namespace laxity
