// Distributions given by published quantiles.
#pragma once

#include <cstdint>

namespace laxity {

/// A piecewise linear inverse distribution function; two knots at one share are a step.
struct Curve {
  struct Knot {
    double share = 0;
    double value = 0;
  };
  Knot knots[12];
  int size = 0;

  constexpr Curve& then(double share, double value) {
    knots[size++] = {share, value};
    return *this;
  }

  /// The value at share u in [0, 1).
  double at(double u) const {
    int i = 1;
    while (i + 1 < size && u >= knots[i].share) ++i;
    const Knot& a = knots[i - 1];
    const Knot& b = knots[i];
    return a.value + (b.value - a.value) * ((u - a.share) / (b.share - a.share));
  }
};

/// A row of the tables of workloads.md 2 and 3. The unpublished minimum continues the line from p25 through
/// p5 (assumption).
constexpr Curve quantileRow(double p5, double p25, double p50, double p75, double p95, double p99,
                            double max) {
  Curve c;
  c.then(0, p5 - (p25 - p5) / 4).then(0.05, p5).then(0.25, p25).then(0.5, p50).then(0.75, p75);
  return c.then(0.95, p95).then(0.99, p99).then(1, max);
}

/// A length in whole tokens, at least 1.
inline std::uint32_t wholeTokens(double x) { return x > 1 ? static_cast<std::uint32_t>(x + 0.5) : 1; }

}  // namespace laxity
