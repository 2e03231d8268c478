// The circuit breaker of one instance (live-scheduling 5, 7).
//
// Assumes outcomes of leases; only ok and fault count, client errors, backpressure and cancellations do not.
// Procedure: closed -> open when the n-th latest fault lies inside the window -> half-open after a pause,
// where one probe at a time is admitted -> closed after so many ok outcomes of probes; a probe's fault opens
// it again. An outcome counts in half-open only if its lease was granted since: what was sent before the
// pause says nothing of now. Ties: a fault exactly one window after the n-th latest still counts.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"

namespace laxity {

enum class BreakerState : std::uint8_t { kClosed = 0, kOpen = 1, kHalfOpen = 2 };

struct BreakerRules {
  std::uint32_t faults = 0;  ///< 0 = breakers are off; at most kMaxBreakerFaults
  Nanos window = 0;
  Nanos pause = 0;
  std::uint32_t successes = 1;
};

inline constexpr std::uint32_t kMaxBreakerFaults = 16;

struct Breaker {
  BreakerState state = BreakerState::kClosed;
  std::uint32_t successes = 0;  ///< of probes, since half-open
  std::uint32_t faults = 0;     ///< remembered, at most kMaxBreakerFaults
  std::uint32_t nextFault = 0;
  std::uint64_t transitions = 0;
  Nanos since = 0;  ///< of the state
  std::array<Nanos, kMaxBreakerFaults> faultAt{};
  std::uint32_t probe = kNoSlot;  ///< call assigned as a probe

  /// True where the state changed.
  bool fault(Nanos t, Nanos leasedAt, const BreakerRules& rules) {
    if (rules.faults == 0 || state == BreakerState::kOpen) return false;
    if (state == BreakerState::kHalfOpen) return leasedAt >= since && move(BreakerState::kOpen, t);
    faultAt[nextFault] = t;
    nextFault = (nextFault + 1) % kMaxBreakerFaults;
    if (faults < kMaxBreakerFaults) ++faults;
    if (faults < rules.faults) return false;
    const Nanos nth = faultAt[(nextFault + kMaxBreakerFaults - rules.faults) % kMaxBreakerFaults];
    return t - nth <= rules.window && move(BreakerState::kOpen, t);
  }

  bool success(Nanos t, Nanos leasedAt, const BreakerRules& rules) {
    if (state != BreakerState::kHalfOpen || leasedAt < since) return false;
    return ++successes >= rules.successes && move(BreakerState::kClosed, t);
  }

  bool pauseOver(Nanos t, const BreakerRules& rules) {
    return state == BreakerState::kOpen && t - since >= rules.pause && move(BreakerState::kHalfOpen, t);
  }

  bool move(BreakerState to, Nanos t) {
    state = to;
    since = t;
    successes = 0;
    faults = 0;
    ++transitions;
    return true;
  }
};

}  // namespace laxity
