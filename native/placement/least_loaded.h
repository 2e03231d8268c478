// Least loaded (policies 4.2).
// Assumes nothing but the number of calls assigned to each instance, waiting or leased.
// Procedure: argmin over the candidates of that number. The trees hold it (kBalancesCalls): inside a class
// t_comp is constant, so the smallest (number, perm) is the best of a class, and a holder of a cached prefix,
// whose t_comp is smaller, is offered beside it. O(classes). Ties: (number, t_comp, perm).
#pragma once

#include "placement/placement.h"

namespace laxity {

struct LeastLoaded {
  static constexpr const char* kName = "least-loaded";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr bool kBalancesCalls = true;

  std::uint32_t choose(const PlacementView& view) {
    Choice<std::uint32_t> best;
    view.eachLeastWork([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      best.offer(m, i.ledger.assigned, e.exec, i.tie);
    });
    return best.instance();
  }
};

}  // namespace laxity
