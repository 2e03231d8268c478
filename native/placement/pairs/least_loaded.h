// Least loaded (policies 5.1): p with the fewest assigned calls when the call becomes ready, d with the
// fewest sequences at the lease. Blind to hardware.
#pragma once

#include <string_view>

#include "placement/pairs/halves.h"

namespace laxity {

struct LeastLoadedPair : FewestSequences {
  static constexpr std::string_view kName = "least-loaded";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<std::uint32_t> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) { best.offer(p, m.ledger.assigned); });
    return best.instance();
  }
};

}  // namespace laxity
