// One queue in front of all prefill instances (policies 5.1): each p that falls idle takes its head, d has
// the fewest sequences. Blind to hardware.
// Procedure: p with the least (prefills leased there, calls assigned there); d with the fewest sequences.
// Without credit in between (binding at-reveal) that is least-loaded by calls in front of idle instances.
// Cost: O(instances). Ties: perm.
#pragma once

#include <compare>
#include <string_view>

#include "placement/pairs/halves.h"

namespace laxity {

struct GlobalQueuePair : FewestSequences {
  static constexpr std::string_view kName = "global-queue";
  static constexpr bool kSharedQueue = true;
  static constexpr bool kPlans = false;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<Prefills> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) {
      best.offer(p, {m.ledger.unprefilled, m.ledger.assigned});
    });
    return best.instance();
  }

 private:
  struct Prefills {
    std::uint32_t leased = 0;
    std::uint32_t assigned = 0;
    friend auto operator<=>(const Prefills&, const Prefills&) = default;
  };
};

}  // namespace laxity
