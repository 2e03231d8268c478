// Time inside the core: signed 64-bit integer nanoseconds. Milliseconds exist only at the JavaScript surface.
#pragma once

#include <cstdint>
#include <limits>

namespace laxity {

using Nanos = std::int64_t;

inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

/// Largest time accepted from outside: about 146 years. Sums of two stay representable.
inline constexpr Nanos kMaxTime = std::numeric_limits<Nanos>::max() / 2;

/// Longest estimate of one call, ten hours: sums over 2^16 calls of an instance stay representable.
inline constexpr Nanos kMaxEstimate = kMaxTime >> 17;

inline constexpr bool validDuration(Nanos d) { return d >= 0 && d <= kMaxTime; }

inline constexpr double toSeconds(Nanos t) { return static_cast<double>(t) * 1e-9; }
inline constexpr double toMs(Nanos t) { return static_cast<double>(t) * 1e-6; }

/// Rounds half away from zero. `ms` must be finite and within +-kMaxTime.
inline constexpr Nanos fromMs(double ms) {
  const double ns = ms * 1e6;
  return static_cast<Nanos>(ns < 0 ? ns - 0.5 : ns + 0.5);
}

}  // namespace laxity
