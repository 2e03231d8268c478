// Round robin (policies 4.1).
// Assumes nothing. Procedure: candidates in perm order; each call goes to the first candidate at or after the
// one that follows the previous choice, cyclically. Ties: none.
#pragma once

#include "placement/placement.h"

namespace laxity {

struct RoundRobin {
  static constexpr const char* kName = "round-robin";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;

  std::uint32_t choose(const PlacementView& view) {
    const auto& order = view.cluster.byTie();
    std::uint32_t chosen = kNoSlot;
    if (view.withCredit) {
      // Few candidates: the nearest one behind the previous choice.
      std::size_t nearest = order.size();
      for (std::size_t step = 0; step < order.size() && chosen == kNoSlot; ++step) {
        const std::size_t at = (next_ + step) % order.size();
        for (std::uint32_t m : *view.withCredit) {
          if (m == order[at] && view.eligible(m)) {
            chosen = m;
            nearest = at;
          }
        }
      }
      if (chosen != kNoSlot) next_ = nearest + 1;
      return chosen;
    }
    for (std::size_t step = 0; step < order.size(); ++step) {
      const std::size_t at = (next_ + step) % order.size();
      if (!view.eligible(order[at])) continue;
      next_ = at + 1;
      return order[at];
    }
    return kNoSlot;
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace laxity
