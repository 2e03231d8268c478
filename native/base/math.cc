#include "base/math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace laxity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ln 2 in two parts. The high one ends in 20 zero bits or more, so its product with any exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

double powerOfTwo(int k) { return std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52); }

}  // namespace

double detLog(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNaN;
  if (x == kInfinity) return x;
  int k = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    k = -54;
  }
  // x = 2^k * m with m in [sqrt(1/2), sqrt(2)): centred on 1, so that f = m - 1 is exact and the series
  // short.
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  constexpr std::uint64_t kSqrt2Fraction = 0x6a09e667f3bcdu;
  k += static_cast<int>(bits >> 52) - 1023;
  std::uint64_t exponent = 1023;
  if ((bits & kFraction) >= kSqrt2Fraction) {
    ++k;
    exponent = 1022;
  }
  const double m = std::bit_cast<double>((bits & kFraction) | exponent << 52);
  const double f = m - 1;

  // With s = f / (2 + f): ln m = 2 atanh(s) = 2 s + s R, R = sum of 2 s^2i / (2i + 1), and 2 s = f - s f.
  // Written as f - s (f - R), the rounding of s only touches a term at most a fifth of the exact f.
  const double s = f / (2 + f);
  const double z = s * s;
  double r = 2.0 / 23;
  r = r * z + 2.0 / 21;
  r = r * z + 2.0 / 19;
  r = r * z + 2.0 / 17;
  r = r * z + 2.0 / 15;
  r = r * z + 2.0 / 13;
  r = r * z + 2.0 / 11;
  r = r * z + 2.0 / 9;
  r = r * z + 2.0 / 7;
  r = r * z + 2.0 / 5;
  r = r * z + 2.0 / 3;
  r *= z;
  const double e = k;
  return e * kLn2High - ((s * (f - r) - e * kLn2Low) - f);
}

double detLog1p(double x) {
  const double u = 1 + x;
  if (!(u > 0) || u == kInfinity) return detLog(u);
  // u - 1 is exact or nearly so; what x lost when 1 was added comes back to first order.
  return detLog(u) + (x - (u - 1)) / u;
}

double detExp(double x) {
  if (x != x) return x;
  if (x > 0x1.62e42fefa39efp+9) return kInfinity;
  if (x < -745.2) return 0;
  const int k = static_cast<int>(x * kInverseLn2 + (x < 0 ? -0.5 : 0.5));
  const double high = x - k * kLn2High;
  const double low = k * kLn2Low;
  const double r = high - low;
  const double lost = (high - r) - low;

  // |r| <= 0.35: the Taylor series up to r^14 is below 2^-58 of the result. 1 + (r + ...) adds the large
  // terms last.
  double p = 1.0 / 87178291200;
  p = p * r + 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 1.0 / 2;
  const double value = 1 + (r + (p * (r * r) + lost));

  // 2^1024 and subnormal powers are no doubles: scale in two steps.
  if (k > 1023) return value * 2 * powerOfTwo(k - 1);
  if (k >= -1022) return value * powerOfTwo(k);
  return value * powerOfTwo(k + 64) * 0x1p-64;
}

double detCbrt(double x) {
  if (!(x >= 0)) return kNaN;
  if (x == 0 || x == kInfinity) return x;
  double scale = 1;
  if (x < 0x1p-1000) {  // subnormal numbers have no usable exponent
    x *= 0x1p108;
    scale = 0x1p-36;
  }
  // A third of the exponent with the fraction carried along is the root to 5 bits; the constant centres the
  // error.
  double t = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) / 3 + (std::uint64_t{715'094'163} << 32));

  // 1 / cbrt(r) near r = t^3 / x = 1, to 23 bits (coefficients of FreeBSD's msun).
  const double r = (t * t) * (t / x);
  t *= (1.87595182427177009643 + r * (-1.88497979543377169875 + r * 1.621429720105354466140)) +
       (r * r) * r * (-0.758397934778766047437 + r * 0.145996192886612446982);

  // Cut to 23 bits t * t is exact, and one Newton step ends at 0.67 ulp.
  t = std::bit_cast<double>((std::bit_cast<std::uint64_t>(t) + 0x80000000u) & 0xffffffffc0000000u);
  const double quotient = x / (t * t);
  return (t + t * ((quotient - t) / (t + t + quotient))) * scale;
}

}  // namespace laxity
