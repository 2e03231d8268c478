// Least loaded (policies 5.1): p with the fewest assigned calls when the call becomes ready, d with the
// fewest sequences at the lease. Blind to hardware.
#pragma once

#include <string_view>

#include "placement/pair.h"

namespace laxity {

struct LeastLoadedPair {
  static constexpr std::string_view kName = "least-loaded";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<std::uint32_t> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) { best.offer(p, m.ledger.assigned); });
    return best.instance();
  }

  std::uint32_t chooseDecode(const PairView& v, std::uint32_t) const {
    LeastOf<std::uint32_t> best;
    v.eachDecode([&](std::uint32_t d, const Instance& m) { best.offer(d, m.ledger.leased); });
    return best.instance();
  }
};

}  // namespace laxity
