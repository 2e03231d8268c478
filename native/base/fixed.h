// Durations finer than a nanosecond, as integers in units of 2^-20 ns, so that a million iterations sum
// exactly.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace laxity {

using Fine = std::int64_t;   ///< one duration: up to 2.4 hours
using FineSum = __int128_t;  ///< sums of products of them

inline constexpr int kFineBits = 20;

inline constexpr Fine fineFromMs(double ms) {
  const double fine = ms * 1e6 * static_cast<double>(1 << kFineBits);
  return static_cast<Fine>(fine < 0 ? fine - 0.5 : fine + 0.5);
}

/// Rounds to the nearest nanosecond, half up. Sums saturate at kMaxTime, which ends a run with a status, not
/// by overflow.
inline constexpr Nanos roundFine(Fine fine) { return (fine >> kFineBits) + ((fine >> (kFineBits - 1)) & 1); }

inline constexpr Nanos roundFine(FineSum fine) {
  const FineSum ns = (fine + (FineSum{1} << (kFineBits - 1))) >> kFineBits;
  return ns > kMaxTime ? kMaxTime : static_cast<Nanos>(ns);
}

}  // namespace laxity
