// From computed nanoseconds to the core's integers: rounded half up, saturated, never below what lets time
// advance.
#pragma once

#include "base/fixed.h"
#include "base/time.h"

namespace laxity {

/// One iteration or prefill at most: an hour, which leaves room for sums with a context term.
inline constexpr Fine kMaxIteration = Fine{3'600'000'000'000} << kFineBits;

inline Fine fineFromNs(double ns) {
  const double fine = ns * (1 << kFineBits) + 0.5;
  return fine < static_cast<double>(kMaxIteration) ? static_cast<Fine>(fine) : kMaxIteration;
}

inline Nanos nanosFromNs(double ns) {
  const double rounded = ns + 0.5;
  if (!(rounded < static_cast<double>(kMaxTime))) return kMaxTime;
  return rounded >= 1 ? static_cast<Nanos>(rounded) : 1;
}

}  // namespace laxity
